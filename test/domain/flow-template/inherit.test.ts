import { suite } from "uvu";
import * as assert from "uvu/assert";
import { inheritTemplate } from "../../../src/domain/flow-template/inherit.ts";
import type { Inheritance, InheritanceInput } from "../../../src/domain/flow-template/inherit.ts";

const test = suite("domain/flow-template/inherit");

const cases: [string, InheritanceInput, Inheritance][] = [
  [
    "a new trail takes the template of its flow",
    { trail: null, flowTemplateId: 1, ownTemplateId: null },
    { outcome: "inherited", templateId: 1, inherited: true, changed: false },
  ],
  [
    "a new trail may bring its own",
    { trail: null, flowTemplateId: 1, ownTemplateId: 2 },
    { outcome: "given", templateId: 2, inherited: false, changed: false },
  ],
  [
    "what a new trail brings is its own even if it is the flow's text",
    { trail: null, flowTemplateId: 1, ownTemplateId: 1 },
    { outcome: "given", templateId: 1, inherited: false, changed: false },
  ],
  [
    "an inherited template follows the flow",
    { trail: { templateId: 1, inherited: true }, flowTemplateId: 3, ownTemplateId: null },
    { outcome: "re-inherited", templateId: 3, inherited: true, changed: true },
  ],
  [
    "following a flow that did not change changes nothing",
    { trail: { templateId: 1, inherited: true }, flowTemplateId: 1, ownTemplateId: null },
    { outcome: "re-inherited", templateId: 1, inherited: true, changed: false },
  ],
  [
    "an explicit template stays whatever the flow does",
    { trail: { templateId: 2, inherited: false }, flowTemplateId: 3, ownTemplateId: null },
    { outcome: "kept", templateId: 2, inherited: false, changed: false },
  ],
  [
    "another template replaces an explicit one",
    { trail: { templateId: 2, inherited: false }, flowTemplateId: 1, ownTemplateId: 4 },
    { outcome: "replaced", templateId: 4, inherited: false, changed: true },
  ],
  [
    "a template replaces an inherited one and ends the inheritance",
    { trail: { templateId: 1, inherited: true }, flowTemplateId: 1, ownTemplateId: 4 },
    { outcome: "replaced", templateId: 4, inherited: false, changed: true },
  ],
  [
    "bringing the inherited text ends the inheritance without a change",
    { trail: { templateId: 1, inherited: true }, flowTemplateId: 1, ownTemplateId: 1 },
    { outcome: "replaced", templateId: 1, inherited: false, changed: false },
  ],
];

for (const [name, input, expected] of cases) test(name, () => assert.equal(inheritTemplate(input), expected));

test.run();
