import { describe, expect, it } from "vitest";
import { formPage } from "../../src/bridge/form_page";

const page = (schema: Record<string, unknown>, value = {}, uiSchema = {}): string =>
  formPage({ title: "T", schema, value, uiSchema }, "nonce");

describe("the page of a form", () => {
  it("has a field for each property, filled from the value or the default", () => {
    const html = page(
      {
        required: ["name"],
        properties: {
          name: { type: "string", title: "Your name", maxLength: 9 },
          age: { type: "integer", minimum: 1, default: 7 },
          ok: { type: "boolean", default: true },
          pick: { enum: ["a", 2] },
        },
      },
      { name: "Ann", pick: 2 },
    );
    expect(html).toContain("Your name *");
    expect(html).toContain('name="f0" required maxlength="9" value="Ann"');
    expect(html).toContain('type="number" step="1" id="f1" name="f1" min="1" value="7"');
    expect(html).toContain('type="checkbox" id="f2" name="f2" checked');
    expect(html).toContain('<option value="2" selected>2</option>');
    expect(html).toContain('<option value="&quot;a&quot;">a</option>');
  });

  it("shows long texts, secrets and radio buttons where the script asks for them", () => {
    const html = page(
      { properties: { a: {}, b: {}, c: { enum: ["x"] } } },
      { a: "1\n2" },
      {
        a: { "ui:widget": "textarea" },
        b: { "ui:widget": "password" },
        c: { "ui:widget": "radio" },
      },
    );
    expect(html).toContain("<textarea");
    expect(html).toContain('type="password"');
    expect(html).toContain('type="radio"');
  });

  it("lets nothing of the script's into the page as markup", () => {
    const evil = `"><script>alert(1)</script>`;
    const html = formPage(
      {
        title: evil,
        schema: {
          description: evil,
          properties: { [evil]: { title: evil, default: evil, enum: [evil] } },
        },
        value: {},
        uiSchema: {},
      },
      "nonce",
    );
    expect(html.match(/<script/g)).toHaveLength(1);
    expect(html).toContain("default-src 'none'");
  });

  it.each([
    ["no properties", {}],
    ["a nested object", { properties: { a: { type: "object" } } }],
  ])("refuses %s", (_, schema) => {
    expect(() => page(schema)).toThrow(/schema has no|no field for/);
  });
});
