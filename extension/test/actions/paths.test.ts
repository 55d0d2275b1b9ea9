/** Where paths lead, and what is said of those that lead out. */
import { expect, test } from "vitest";
import { Places } from "../../src/actions/paths";

const places = new Places({ roots: () => ["/usr"], isReadable: () => false });

test("a relative path that leads outside is told with where it was taken from", async () => {
  await expect(places.find("lib", "/usr")).resolves.toMatchObject({ shown: "/usr/lib" });
  await expect(places.find("passwd", "/etc")).rejects.toThrow(
    "/etc/passwd leads outside of what may be used here: /usr " +
      "('passwd' was taken from /etc, where the agent's shell is)",
  );
  await expect(places.find("/etc/passwd", "/usr")).rejects.toThrow(/may be used here: \/usr$/);
});
