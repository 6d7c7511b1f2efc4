// The software bill of materials in CycloneDX 1.6, as JSON.

import { createHash } from "node:crypto";
import { Contrib, Enums, Models, SPDX, Serialize, Spec } from "@cyclonedx/cyclonedx-library";
import type { BuildInfo } from "../src/assets.ts";
import { idOf } from "./components.ts";
import type { Component } from "./components.ts";

/**
 * The document for `components`. `time` is that of the commit, null where it is unknown. The same build gives the same
 * text.
 */
export function billOfMaterials(build: BuildInfo, components: readonly Component[], time: Date | null): string {
  const licenses = new Contrib.License.Factories.LicenseFactory(assertExpression);
  const models = new Map<string, Models.Component>();
  for (const component of components) {
    const { name, version, license, purl, cpe, sha512 } = component;
    const [group, plain] = name.startsWith("@") ? (name.split("/") as [string, string]) : [undefined, name];
    const type = plain === "node" ? Enums.ComponentType.Platform : Enums.ComponentType.Library;
    const model = new Models.Component(type, plain, {
      bomRef: idOf(component),
      licenses: new Models.LicenseRepository([licenses.makeFromString(license)]),
      ...(group !== undefined && { group }),
      ...(version !== null && { version }),
      ...(purl !== null && { purl }),
      ...(cpe !== null && { cpe: cpe as NonNullable<Models.Component["cpe"]> }),
      ...(sha512 !== null && { hashes: new Models.HashDictionary([[Enums.HashAlgorithm["SHA-512"], sha512]]) }),
    });
    models.set(idOf(component), model);
  }

  const program = new Models.Component(Enums.ComponentType.Application, "assay", {
    bomRef: `assay@${build.version}`,
    version: build.version,
    licenses: new Models.LicenseRepository([licenses.makeFromString("Apache-2.0")]),
    ...(build.commit !== null && {
      properties: new Models.PropertyRepository([new Models.Property("assay:commit", build.commit)]),
    }),
  });
  const bom = new Models.Bom({
    metadata: new Models.Metadata({ component: program, ...(time !== null && { timestamp: time }) }),
  });
  for (const component of components) {
    const model = models.get(idOf(component)) as Models.Component;
    for (const used of component.uses) model.dependencies.add((models.get(used) as Models.Component).bomRef);
    const owner = component.within === null ? null : models.get(component.within);
    if (owner) {
      owner.components.add(model);
      owner.dependencies.add(model.bomRef);
    } else {
      bom.components.add(model);
      program.dependencies.add(model.bomRef);
    }
  }
  bom.serialNumber = serialNumber(build, components);
  const text = new Serialize.JsonSerializer(new Serialize.JSON.Normalize.Factory(Spec.Spec1dot6)).serialize(bom, {
    sortLists: true,
    space: 2,
  });
  return `${text}\n`;
}

/** @throws Error unless the text is SPDX identifiers joined by AND or OR, which is all that packages use */
function assertExpression(license: string): void {
  const unknown = license.split(/ AND | OR /).find((id) => !SPDX.isSupportedSpdxId(id.replace(/^\(|\)$/g, "")));
  if (unknown !== undefined) throw new Error(`${JSON.stringify(unknown)} is not an SPDX identifier`);
}

/** A UUID (version 8) derived from the described build. */
function serialNumber(build: BuildInfo, components: readonly Component[]): string {
  const hex = createHash("sha256")
    .update(JSON.stringify([build, components.map(idOf)]))
    .digest("hex");
  const groups = [
    hex.slice(0, 8),
    hex.slice(8, 12),
    `8${hex.slice(13, 16)}`,
    `a${hex.slice(17, 20)}`,
    hex.slice(20, 32),
  ];
  return `urn:uuid:${groups.join("-")}`;
}
