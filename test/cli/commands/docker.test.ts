import { suite } from "uvu";
import * as assert from "uvu/assert";
import { listLoadedLibraries } from "../../../src/cli/commands/docker.ts";
import { cli } from "../in-process.ts";

const test = suite("cli/commands/docker");

const line = (path: string): string =>
  `7f0000000000-7f0000001000 r-xp 00000000 fe:00 1234                       ${path}\n`;

test("places libraries and the loader at the paths where programs look for them", () => {
  const maps = [
    "/usr/local/bin/assay",
    "/usr/lib/libstdc++.so.6.0.30",
    "/usr/lib/libstdc++.so.6.0.30",
    "/usr/lib/libc.so.6",
    "/usr/lib/ld-linux-x86-64.so.2",
    "[vdso]",
    "/tmp/.assay-native-x/addon.node (deleted)",
    "",
  ]
    .map(line)
    .join("");
  const links: Record<string, string> = {
    "/usr/lib/libstdc++.so.6": "/usr/lib/libstdc++.so.6.0.30",
    "/lib64/ld-linux-x86-64.so.2": "/usr/lib/ld-linux-x86-64.so.2",
  };
  assert.equal(
    listLoadedLibraries(maps, (path) => links[path] ?? path),
    [
      { from: "/usr/lib/ld-linux-x86-64.so.2", to: "/lib64/ld-linux-x86-64.so.2" },
      { from: "/usr/lib/libc.so.6", to: "/usr/lib/libc.so.6" },
      { from: "/usr/lib/libstdc++.so.6.0.30", to: "/usr/lib/libstdc++.so.6" },
    ],
  );
});

test("refuses a path that leads to another library", () => {
  assert.throws(
    () =>
      listLoadedLibraries(line("/usr/lib/libm.so.6.1"), (path) =>
        path === "/usr/lib/libm.so.6" ? "/usr/lib/libm-2.so" : path,
      ),
    /is a different library/,
  );
});

test("a checkout has neither an executable nor its component lists", async () => {
  assert.equal(await cli(["docker", "image"]), {
    code: 1,
    out: "",
    err: "assay: this program runs from a checkout, and an image needs the built executable: run make image\n",
  });
  for (const command of ["licenses", "sbom"]) {
    assert.equal(await cli([command]), {
      code: 1,
      out: "",
      err:
        "assay: this program runs from a checkout; only the built executable has this list: run make build, then " +
        "use dist/assay\n",
    });
  }
});

test.run();
