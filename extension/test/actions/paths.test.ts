/** Where paths lead, and what is said of those that lead out. */
import { expect, test } from "vitest";
import { PathResolver } from "../../src/actions/paths";

const resolver = new PathResolver({ roots: () => ["/usr"], isReadable: () => false });

test("a relative path that leads outside is told with where it was taken from", async () => {
  await expect(resolver.find("lib", "/usr")).resolves.toMatchObject({ displayPath: "/usr/lib" });
  await expect(resolver.find("passwd", "/etc")).rejects.toThrow(
    "/etc/passwd is outside the allowed directories: /usr " +
      "('passwd' was taken from /etc, where the agent's shell is)",
  );
  await expect(resolver.find("/etc/passwd", "/usr")).rejects.toThrow(/allowed directories: \/usr$/);
});
