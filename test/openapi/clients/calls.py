"""Twelve calls with the client that openapi-python-client generated. main.ts runs it with ASSAY_URL, ASSAY_KEY and ASSAY_ORG."""

import io
import os

from assay_client import AuthenticatedClient, Client
from assay_client.api.artifacts import create_artifact
from assay_client.api.attestation import (
    get_attestation_evidence,
    get_attestations,
    list_attestations_for_criteria,
    post_generic_attestation,
)
from assay_client.api.environments import create_env
from assay_client.api.flows import create_flow_with_template, get_flow
from assay_client.api.meta import get_version
from assay_client.api.tags import patch_tags
from assay_client.api.trails import create_trail
from assay_client.models import (
    AttestationListPage,
    AttestationsByCommit,
    CreateArtifact,
    CreateArtifactAnnotationsType0,
    CreateArtifactExternalUrlsType0,
    CreateEnvironmentPutInput,
    CreateFlow,
    CreateFlowForm,
    CreateTrail,
    CreateTrailForm,
    EnvironmentType,
    ExternalAttachmentUrl,
    GenericAttestationForm,
    GenericAttestationPostInput,
    Message,
    PatchTagsResourceType,
    TagPatchInput,
    TagPatchInputSetTagsType0,
    ValidationError,
    VersionResponse,
)
from assay_client.types import File

ROOT = os.environ["ASSAY_URL"] + "/api/v2"
ORG = os.environ["ASSAY_ORG"]
FLOW, TRAIL = "python", "release-1"
FINGERPRINT, COMMIT, OTHER = "a" * 64, "b" * 40, "c" * 40
EVIDENCE = bytes(range(256))
TEMPLATE = b"version: 1\ntrail:\n  attestations:\n    - name: tests\n      type: generic\n"

client = AuthenticatedClient(base_url=ROOT, token=os.environ["ASSAY_KEY"], raise_on_unexpected_status=True)


def same(what: str, found: object, expected: object) -> None:
    if found != expected:
        raise SystemExit(f"{what}: {found!r} instead of {expected!r}")
    print(f"ok {what}")


def file(name: str, content: bytes) -> File:
    return File(payload=io.BytesIO(content), file_name=name, mime_type="application/octet-stream")


version = get_version.sync_detailed(client=Client(base_url=ROOT))
assert isinstance(version.parsed, VersionResponse)
same("get_version without a key", (int(version.status_code), version.parsed.schema > 0), (200, True))

created = create_flow_with_template.sync_detailed(
    ORG, client=client, body=CreateFlowForm(CreateFlow(name=FLOW, description="Flöw"), template_file=file("template.yml", TEMPLATE))
)
same("create_flow_with_template: form with a file", (int(created.status_code), created.parsed), (201, "OK"))

trail = create_trail.sync_detailed(ORG, FLOW, client=client, body=CreateTrailForm(CreateTrail(name=TRAIL, user_data=[1, "two"])))
same("create_trail: form without a file", int(trail.status_code), 201)

urls = CreateArtifactExternalUrlsType0()
urls["docs"] = ExternalAttachmentUrl(href="https://example.com/docs")
annotations = CreateArtifactAnnotationsType0()
annotations["team"] = "payments"
artifact = create_artifact.sync_detailed(
    ORG,
    FLOW,
    client=client,
    body=CreateArtifact(
        fingerprint=FINGERPRINT, filename="app", git_commit=COMMIT, build_url="https://ci.example.com/1", commit_url="https://example.com/c",
        trail_name=TRAIL, user_data=[{"any": None}], external_urls=urls, annotations=annotations,
    ),
)
same("create_artifact: JSON with maps and a list", int(artifact.status_code), 201)

reported = post_generic_attestation.sync_detailed(
    ORG,
    FLOW,
    TRAIL,
    client=client,
    body=GenericAttestationForm(
        GenericAttestationPostInput(attestation_name="tests", is_compliant=True, artifact_fingerprint=FINGERPRINT),
        attachment_file=file("evidence.bin", EVIDENCE),
    ),
)
same("post_generic_attestation: form with evidence", int(reported.status_code), 201)

found = get_attestations.sync_detailed(ORG, client=client, flow=[FLOW, "no-such"], type_=["junit", "generic"], per_page=5)
assert isinstance(found.parsed, AttestationListPage)
same("get_attestations: arrays in the query", [one.attestation_name for one in found.parsed.data], ["tests"])

evidence = get_attestation_evidence.sync_detailed(ORG, FLOW, TRAIL, found.parsed.data[0].attestation_id, client=client)
assert isinstance(evidence.parsed, File)
same("get_attestation_evidence: bytes", evidence.parsed.payload.read(), EVIDENCE)

by_commit = list_attestations_for_criteria.sync_detailed(ORG, client=client, commit_list=[COMMIT, OTHER])
assert isinstance(by_commit.parsed, AttestationsByCommit)
same("list_attestations_for_criteria: a map of lists", sorted(by_commit.parsed.additional_keys), [COMMIT, OTHER])

environment = create_env.sync_detailed(ORG, client=client, body=CreateEnvironmentPutInput(name="python", type_=EnvironmentType.K8S, description=""))
same("create_env: JSON with an enumeration", int(environment.status_code), 201)

tags = TagPatchInputSetTagsType0()
tags["team"] = "payments"
tagged = patch_tags.sync_detailed(ORG, PatchTagsResourceType.FLOW, FLOW, client=client, body=TagPatchInput(set_tags=tags, remove_tags=["old"]))
same("patch_tags: JSON with a map", int(tagged.status_code), 200)

missing = get_flow.sync_detailed(ORG, "no-such", client=client)
assert isinstance(missing.parsed, Message)
same("get_flow: body of a 404", missing.parsed.message, f"Flow named 'no-such' does not exist for organization '{ORG}'")

invalid = create_flow_with_template.sync_detailed(ORG, client=client, body=CreateFlowForm(CreateFlow(name="not a name")))
assert isinstance(invalid.parsed, ValidationError) and not isinstance(invalid.parsed.errors, type(None))
same("create_flow_with_template: body of a 400", list(invalid.parsed.errors.to_dict()), ["name"])  # type: ignore[union-attr]
