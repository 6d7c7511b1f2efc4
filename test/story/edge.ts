/** The organization of everything that is hard to show: long names, other scripts, markup in every text. */
import { commitOf, fingerprintOf } from "../../src/demo/steps.ts";
import type { Calendar, Step, Teller } from "../../src/demo/steps.ts";
import { ADMIN, addMember, foundOrganization } from "../../src/demo/acme/people.ts";
import { imageEvidence, textEvidence } from "../../src/demo/evidence.ts";

export const EDGE = "edge";

/** The longest name that there is. */
export const LONG_NAME = `a-name-of-256-characters-${"0123456789-".repeat(30)}`.slice(0, 256);
export const MARKUP = ['<script>alert("stored")</script>', '"><img src=x onerror=alert(1)>'] as const;
const RIGHT_TO_LEFT = "بوابة الدفع — الإصدار 2.41";
const EMOJI = "🚢🧾 Zahlungsläufe 結算 👩🏽‍💻";
const LONG_WORD = "unbreakable".repeat(60);

/** Texts for every field that takes free text, in turn. */
export const TEXTS: readonly string[] = [
  ...MARKUP,
  RIGHT_TO_LEFT,
  EMOJI,
  LONG_WORD,
  "  spaces \t and\nlines  ",
  "{{7*7}}",
];
const textAt = (index: number): string => TEXTS[index % TEXTS.length] as string;

const FLOWS = [LONG_NAME, "markup", "right-to-left", "emoji"];
const ENVIRONMENTS = [LONG_NAME.slice(0, 255), "markup", "one-artifact", "never-reported"];
const RELEASE = "release-1";

const commit = (index: number, at: number) => ({
  sha1: commitOf(`edge ${index}`),
  message: textAt(index),
  author: `${textAt(index).slice(0, 60)} <edge@edge.example>`,
  branch: index % 2 === 0 ? MARKUP[0] : "main",
  timestamp: at,
});

/** A flow with one trail that has one artifact and an attestation of every text. */
async function flowWithTexts({ send }: Teller, { name, index, at }: { name: string; index: number; at: number }) {
  await send("PUT", `/flows/${EDGE}/template_file`, {
    by: ADMIN,
    form: { json: { name, description: textAt(index) } },
  });
  const tags = Object.fromEntries(TEXTS.map((text, position) => [`text-${position}`, text]));
  await send("PATCH", `/tags/${EDGE}/flow/${name}`, { by: ADMIN, body: { set_tags: tags, remove_tags: [] } });
  const trail = index === 0 ? LONG_NAME : RELEASE;
  const json = {
    name: trail,
    description: textAt(index + 1),
    git_commit_info: commit(index, at),
    user_data: { [textAt(index)]: textAt(index + 1) },
    external_urls: { [MARKUP[0].replaceAll(/[.=]/g, "")]: { href: "https://edge.example/?a=1&b=<2>" } },
  };
  await send("PUT", `/trails/${EDGE}/${name}`, { by: ADMIN, form: { json } });
  await send("POST", `/artifacts/${EDGE}/${name}`, {
    by: ADMIN,
    body: {
      fingerprint: fingerprintOf(`edge ${index}`),
      filename: index === 0 ? `registry.example/${LONG_NAME}` : textAt(index),
      trail_name: trail,
      template_reference_name: "artifact",
      git_commit: commitOf(`edge ${index}`),
      git_commit_info: commit(index, at),
      build_url: "https://ci.edge.example/1",
      commit_url: "https://git.edge.example/1",
    },
  });
  for (const [position, text] of TEXTS.entries()) {
    const file =
      position % 2 === 0 ? textEvidence(`${position}-${MARKUP[0]}.txt`, TEXTS) : imageEvidence(`${EMOJI}.png`);
    await send("POST", `/attestations/${EDGE}/${name}/trail/${trail}/generic`, {
      by: ADMIN,
      form: {
        json: {
          attestation_name: position === 0 ? LONG_NAME : `text-${position}`,
          is_compliant: position !== 1,
          description: text,
          annotations: { text, link: "https://edge.example/?q=<b>" },
          user_data: [text, { [text]: text }],
          ...(position % 2 === 0 ? {} : { artifact_fingerprint: fingerprintOf(`edge ${index}`) }),
        },
        file,
      },
    });
  }
}

async function environmentWithTexts(
  { send }: Teller,
  { name, index, at }: { name: string; index: number; at: number },
) {
  await send("PUT", `/environments/${EDGE}`, {
    by: ADMIN,
    body: { name, type: "server", description: textAt(index), policies: index === 1 ? ["markup"] : [] },
  });
  if (name === "never-reported") return;
  const texts = name === "one-artifact" ? [EMOJI] : [...TEXTS, LONG_NAME];
  const artifacts = texts.map((text, position) => ({
    digests: { [text]: fingerprintOf(`edge ${position}`) },
    creationTimestamp: Math.floor(at) - position,
  }));
  await send("PUT", `/environments/${EDGE}/${name}/report/server`, { by: ADMIN, body: { artifacts } });
}

async function policyAndControl({ send }: Teller) {
  const yaml = [
    "_schema: https://assay.edge.example/schemas/policy/v1",
    `# ${MARKUP[0]} ${RIGHT_TO_LEFT} ${EMOJI}`,
    "artifacts:",
    "  provenance:",
    "    required: true",
    "    exceptions:",
    `      - if: \${{ matches(artifact.name, '${MARKUP[0]}') }}`,
    "",
  ].join("\n");
  await send("PUT", `/policies/${EDGE}`, {
    by: ADMIN,
    form: {
      field: "payload",
      json: { name: "markup", type: "env", description: MARKUP[1], comment: MARKUP[0] },
      file: { name: "policy_file", filename: "policy.yml", content: yaml },
    },
  });
  for (const [index, name] of TEXTS.entries())
    await send("POST", `/controls/${EDGE}`, {
      by: ADMIN,
      body: {
        identifier: index === 0 ? LONG_NAME : `CTL-${index}`,
        name: name.trim().slice(0, 250),
        description: textAt(index + 1),
        links: { [MARKUP[0]]: "https://edge.example/?a=1&b=<2>" },
      },
    });
}

export const edge = ({ time }: Calendar): Step[] => [
  {
    at: time("10d 08:00"),
    async make(teller) {
      await foundOrganization(teller, EDGE);
      await addMember(teller, { org: EDGE, name: "edge-reader", displayName: MARKUP[0], role: "reader" });
    },
  },
  { at: time("10d 09:00"), make: policyAndControl },
  ...FLOWS.map((name, index) => ({
    at: time("9d 10:00") + index * 600,
    make: (teller: Teller) => flowWithTexts(teller, { name, index, at: time("9d 09:00") }),
  })),
  ...ENVIRONMENTS.map((name, index) => ({
    at: time("8d 10:00") + index * 600,
    make: (teller: Teller) => environmentWithTexts(teller, { name, index, at: time("8d 09:00") }),
  })),
];

const MANY = 10_000;
/** Attestations on one of its trails. */
const CHECKS = 600;
const AT_ONCE = 25;

/** One flow with 10,000 artifacts, a trail of hundreds of checks, and an environment in which all of them run. */
export async function manyArtifacts({ send, server }: Teller): Promise<void> {
  const at = Math.floor(server.clock.at);
  const names = Array.from({ length: MANY }, (_, index) => `registry.example/service-${index}:1.${index % 40}`);
  await send("PUT", `/flows/${EDGE}/template_file`, { by: ADMIN, form: { json: { name: "large", description: "" } } });
  for (let start = 0; start < MANY; start += AT_ONCE)
    await Promise.all(
      names.slice(start, start + AT_ONCE).map((filename, index) =>
        send("POST", `/artifacts/${EDGE}/large`, {
          by: ADMIN,
          body: {
            fingerprint: fingerprintOf(filename),
            filename,
            trail_name: `nightly-${Math.floor((start + index) / 100)}`,
            template_reference_name: `service-${start + index}`,
            git_commit: commitOf(filename),
            build_url: "https://ci.edge.example/1",
            commit_url: "https://git.edge.example/1",
          },
        }),
      ),
    );
  for (let check = 0; check < CHECKS; check += 1)
    await send("POST", `/attestations/${EDGE}/large/trail/nightly-0/generic`, {
      by: ADMIN,
      form: {
        json: {
          attestation_name: `check-${Math.floor(check / 100)}`,
          is_compliant: check % 97 !== 0,
          artifact_fingerprint: fingerprintOf(names[check % 100] as string),
        },
      },
    });
  await send("PUT", `/environments/${EDGE}`, { by: ADMIN, body: { name: "large", type: "server", description: "" } });
  const artifacts = names.map((name) => ({ digests: { [name]: fingerprintOf(name) }, creationTimestamp: at }));
  await send("PUT", `/environments/${EDGE}/large/report/server`, { by: ADMIN, body: { artifacts } });
}
