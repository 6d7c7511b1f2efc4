// Twelve calls with the client that oapi-codegen generated. main.ts runs it with ASSAY_URL, ASSAY_KEY and ASSAY_ORG.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"mime/multipart"
	"net/http"
	"os"
	"reflect"
	"sort"
	"strings"

	"assay-openapi-check/api"
)

const (
	flow  = "go"
	trail = "release-1"
)

var (
	org         = os.Getenv("ASSAY_ORG")
	fingerprint = strings.Repeat("a", 64)
	commit      = strings.Repeat("b", 40)
	other       = strings.Repeat("c", 40)
)

func same(what string, found, expected any) {
	if !reflect.DeepEqual(found, expected) {
		fail(what, fmt.Errorf("%#v instead of %#v", found, expected))
	}
	fmt.Println("ok", what)
}

func fail(what string, err error) {
	fmt.Fprintf(os.Stderr, "%s: %v\n", what, err)
	os.Exit(1)
}

func must[T any](value T, err error) T {
	if err != nil {
		fail("call", err)
	}
	return value
}

// A form with the JSON of `data` in its part, and a file if `name` names one. The generator leaves forms to its users.
func form(data any, name string, content []byte) (string, *bytes.Buffer) {
	body := &bytes.Buffer{}
	writer := multipart.NewWriter(body)
	if err := writer.WriteField("data_json", string(must(json.Marshal(data)))); err != nil {
		fail("form", err)
	}
	if name != "" {
		if _, err := must(writer.CreateFormFile(name, "file.bin")).Write(content); err != nil {
			fail("form", err)
		}
	}
	if err := writer.Close(); err != nil {
		fail("form", err)
	}
	return writer.FormDataContentType(), body
}

func ptr[T any](value T) *T { return &value }

func main() {
	ctx := context.Background()
	root := os.Getenv("ASSAY_URL") + "/api/v2"
	anonymous := must(api.NewClientWithResponses(root))
	client := must(api.NewClientWithResponses(root, api.WithRequestEditorFn(func(_ context.Context, request *http.Request) error {
		request.Header.Set("Authorization", "Bearer "+os.Getenv("ASSAY_KEY"))
		return nil
	})))

	version := must(anonymous.GetVersionWithResponse(ctx))
	same("get_version without a key", version.JSON200 != nil && version.JSON200.Schema > 0, true)

	template := []byte("version: 1\ntrail:\n  attestations:\n    - name: tests\n      type: generic\n")
	kind, body := form(api.CreateFlow{Name: flow, Description: ptr("Flöw")}, "template_file", template)
	created := must(client.CreateFlowWithTemplateWithBodyWithResponse(ctx, org, kind, body))
	same("create_flow_with_template: form with a file", created.StatusCode(), 201)

	var trailData api.CreateTrail_UserData
	if err := trailData.FromCreateTrailUserData1([]any{1, "two"}); err != nil {
		fail("user_data", err)
	}
	kind, body = form(api.CreateTrail{Name: trail, UserData: &trailData}, "", nil)
	begun := must(client.CreateTrailWithBodyWithResponse(ctx, org, flow, kind, body))
	same("create_trail: form without a file", begun.StatusCode(), 201)

	var data api.CreateArtifact_UserData
	if err := data.FromCreateArtifactUserData1([]any{map[string]any{"any": nil}}); err != nil {
		fail("user_data", err)
	}
	artifact := must(client.CreateArtifactWithResponse(ctx, org, flow, api.CreateArtifact{
		Fingerprint: fingerprint, Filename: "app", GitCommit: &commit, BuildUrl: "https://ci.example.com/1", CommitUrl: "https://example.com/c",
		TrailName: ptr(trail), UserData: &data,
		ExternalUrls: &map[string]api.ExternalAttachmentUrl{"docs": {Href: "https://example.com/docs"}},
		Annotations:  &map[string]any{"team": "payments"},
	}))
	same("create_artifact: JSON with maps and a list", artifact.StatusCode(), 201)

	evidence := make([]byte, 256)
	for place := range evidence {
		evidence[place] = byte(place)
	}
	kind, body = form(api.GenericAttestationPostInput{AttestationName: "tests", IsCompliant: true, ArtifactFingerprint: &fingerprint}, "attachment_file", evidence)
	reported := must(client.PostGenericAttestationWithBodyWithResponse(ctx, org, flow, trail, kind, body))
	same("post_generic_attestation: form with evidence", reported.StatusCode(), 201)

	found := must(client.GetAttestationsWithResponse(ctx, org, &api.GetAttestationsParams{
		Flow: &[]string{flow, "no-such"}, Type: &[]string{"junit", "generic"}, PerPage: ptr(5),
	}))
	same("get_attestations: arrays in the query", found.JSON200 != nil && len(found.JSON200.Data) == 1, true)
	attestation := found.JSON200.Data[0]

	file := must(client.GetAttestationEvidenceWithResponse(ctx, org, flow, trail, attestation.AttestationId))
	same("get_attestation_evidence: bytes", file.Body, evidence)

	byCommit := must(client.ListAttestationsForCriteriaWithResponse(ctx, org, &api.ListAttestationsForCriteriaParams{CommitList: []string{commit, other}}))
	commits := []string{}
	for sha := range *byCommit.JSON200 {
		commits = append(commits, sha)
	}
	sort.Strings(commits)
	same("list_attestations_for_criteria: a map of lists", commits, []string{commit, other})

	environment := must(client.CreateEnvWithResponse(ctx, org, api.CreateEnvironmentPutInput{Name: "go", Type: api.EnvironmentTypeK8S}))
	same("create_env: JSON with an enumeration", environment.StatusCode(), 201)

	tagged := must(client.PatchTagsWithResponse(ctx, org, api.PatchTagsParamsResourceTypeFlow, flow, api.TagPatchInput{
		SetTags: &map[string]string{"team": "payments"}, RemoveTags: &[]string{"old"},
	}))
	same("patch_tags: JSON with a map", tagged.StatusCode(), 200)

	missing := must(client.GetFlowWithResponse(ctx, org, "no-such"))
	same("get_flow: body of a 404", missing.JSON404.Message, "Flow named 'no-such' does not exist for organization '"+org+"'")

	kind, body = form(api.CreateFlow{Name: "not a name"}, "", nil)
	invalid := must(client.CreateFlowWithTemplateWithBodyWithResponse(ctx, org, kind, body))
	same("create_flow_with_template: body of a 400", len(*invalid.JSON400.Errors) == 1 && (*invalid.JSON400.Errors)["name"] != "", true)
}
