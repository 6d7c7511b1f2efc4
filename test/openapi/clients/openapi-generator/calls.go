// Sixteen calls with the Go client that openapi-generator made. openapi-generator.ts runs it with ASSAY_URL, ASSAY_KEY
// and ASSAY_ORG.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"os"
	"reflect"
	"sort"
	"strings"

	"assay-openapi-check/api"
)

const (
	flow  = "generator-go"
	trail = "release-1"
)

var (
	org         = os.Getenv("ASSAY_ORG")
	root        = os.Getenv("ASSAY_URL") + "/api/v2"
	fingerprint = strings.Repeat("a", 64)
	commit      = strings.Repeat("d", 40)
	other       = strings.Repeat("e", 40)
)

func same(what string, found, expected any) {
	if !reflect.DeepEqual(found, expected) {
		fail(what, fmt.Errorf("%#v instead of %#v", found, expected))
	}
	fmt.Println("ok", what)
}

func fail(what string, err error) {
	if detailed, ok := err.(*api.GenericOpenAPIError); ok {
		err = fmt.Errorf("%w: %s", err, detailed.Body())
	}
	fmt.Fprintf(os.Stderr, "%s: %v\n", what, err)
	os.Exit(1)
}

func must[T any](value T, err error) T {
	if err != nil {
		fail("call", err)
	}
	return value
}

// The result of a call.
func result[T any](value T, _ *http.Response, err error) T {
	return must(value, err)
}

// The status of a call whose result is a text: the generated code gives its JSON, with the quotes.
func status(_ string, response *http.Response, err error) int {
	return must(response, err).StatusCode
}

// Sends a form with the JSON of `data` in its part, and a file if `name` names one. The generated methods write a
// required part of JSON field by field (data_json[name]=...), which is no JSON: forms are left to their users.
func form(method, path string, data any, name string, content []byte) (int, []byte) {
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
	request := must(http.NewRequest(method, root+path, body))
	request.Header.Set("Content-Type", writer.FormDataContentType())
	request.Header.Set("Authorization", "Bearer "+os.Getenv("ASSAY_KEY"))
	response := must(http.DefaultClient.Do(request))
	defer response.Body.Close()
	return response.StatusCode, must(io.ReadAll(response.Body))
}

func main() {
	settings := api.NewConfiguration()
	settings.Servers = api.ServerConfigurations{{URL: root}}
	client := api.NewAPIClient(settings)
	anonymous := context.Background()
	ctx := context.WithValue(anonymous, api.ContextAccessToken, os.Getenv("ASSAY_KEY"))

	version := result(client.MetaAPI.GetVersion(anonymous).Execute())
	same("get_version without a key", version.Schema > 0, true)

	newFlow := api.NewCreateFlow(flow)
	newFlow.SetDescription("Flöw")
	template := []byte("version: 1\ntrail:\n  attestations:\n    - name: tests\n      type: generic\n")
	code, _ := form("PUT", "/flows/"+org+"/template_file", newFlow, "template_file", template)
	same("create_flow_with_template: form with a file", code, 201)

	trailData := []any{1, "two"}
	newTrail := api.NewCreateTrail(trail)
	newTrail.SetUserData(api.CreateArtifactUserData{ArrayOfAny: &trailData})
	code, _ = form("PUT", "/trails/"+org+"/"+flow, newTrail, "", nil)
	same("create_trail: form without a file", code, 201)

	data := []any{map[string]any{"any": nil}}
	artifact := api.NewCreateArtifact(fingerprint, "app", "https://ci.example.com/1", "https://example.com/c")
	artifact.SetGitCommit(commit)
	artifact.SetTrailName(trail)
	artifact.SetUserData(api.CreateArtifactUserData{ArrayOfAny: &data})
	artifact.SetExternalUrls(map[string]api.ExternalAttachmentUrl{"docs": *api.NewExternalAttachmentUrl("https://example.com/docs")})
	artifact.SetAnnotations(map[string]any{"team": "payments"})
	created := client.ArtifactsAPI.CreateArtifact(ctx, org, flow).CreateArtifact(*artifact)
	same("create_artifact: JSON with maps and a list", status(created.Execute()), 201)

	evidence := make([]byte, 256)
	for place := range evidence {
		evidence[place] = byte(place)
	}
	attested := api.NewGenericAttestationPostInput("tests", true)
	attested.SetArtifactFingerprint(fingerprint)
	code, _ = form("POST", "/attestations/"+org+"/"+flow+"/trail/"+trail+"/generic", attested, "attachment_file", evidence)
	same("post_generic_attestation: form with evidence", code, 201)

	page := result(client.AttestationAPI.GetAttestations(ctx, org).Flow([]string{flow, "no-such"}).Type_([]string{"junit", "generic"}).PerPage(5).Execute())
	same("get_attestations: arrays in the query", len(page.Data), 1)

	file := result(client.AttestationAPI.GetAttestationEvidence(ctx, org, flow, trail, page.Data[0].AttestationId).Execute())
	same("get_attestation_evidence: bytes", must(io.ReadAll(file)), evidence)

	byCommit := result(client.AttestationAPI.ListAttestationsForCriteria(ctx, org).CommitList([]string{commit, other}).Execute())
	commits := []string{}
	for sha := range *byCommit {
		commits = append(commits, sha)
	}
	sort.Strings(commits)
	same("list_attestations_for_criteria: a map of lists", commits, []string{commit, other})

	environment := api.NewCreateEnvironmentPutInput(flow, api.K8_S, "")
	put := client.EnvironmentsAPI.CreateEnv(ctx, org).CreateEnvironmentPutInput(*environment)
	same("create_env: JSON with an enumeration", status(put.Execute()), 201)

	tags := api.NewTagPatchInput()
	tags.SetSetTags(map[string]string{"team": "payments"})
	tags.SetRemoveTags([]string{"old"})
	patch := client.TagsAPI.PatchTags(ctx, org, "flow", flow).TagPatchInput(*tags)
	same("patch_tags: JSON with a map", status(patch.Execute()), 200)

	hook := api.NewWebhookActionTarget("WEBHOOK", "https://hooks.example.com/builds")
	mail := api.NewEmailActionTarget("EMAIL", []string{"team@example.com"})
	action := api.NewEnvActionPutInput(flow, []string{flow}, []string{"ON_NON_COMPLIANT_ENV"}, []api.ActionTarget{
		api.WebhookActionTargetAsActionTarget(hook), api.EmailActionTargetAsActionTarget(mail),
	})
	actions := client.ActionsAPI.CreateOrUpdateEnvAction(ctx, org).EnvActionPutInput(*action)
	same("create_or_update_env_action: a union of targets", status(actions.Execute()), 201)

	targets := []string{}
	for _, one := range result(client.ActionsAPI.ListActions(ctx, org).Execute()) {
		if one.Name == flow {
			targets = append(targets, one.Targets[0].WebhookTargetResponse.Webhook, one.Targets[1].EmailTargetResponse.Emails[0])
		}
	}
	same("list_actions: a union of targets", targets, []string{"https://hooks.example.com/builds", "team@example.com"})

	all := result(client.FlowsAPI.GetFlows(ctx, org).SearchByName(flow).Execute())
	same("get_flows: a list", (*all.ArrayOfFlowListItem)[0].Name, flow)
	flows := result(client.FlowsAPI.GetFlows(ctx, org).SearchByName(flow).Page(1).PerPage(5).Execute())
	same("get_flows: a page", []any{flows.FlowListPage.Data[0].Name, flows.FlowListPage.Pagination.Total}, []any{flow, int64(1)})

	_, _, err := client.FlowsAPI.GetFlow(ctx, org, "no-such").Execute()
	missing := err.(*api.GenericOpenAPIError).Model().(api.Message)
	same("get_flow: body of a 404", missing.Message, "Flow named 'no-such' does not exist for organization '"+org+"'")

	code, body := form("PUT", "/flows/"+org+"/template_file", api.NewCreateFlow("not a name"), "", nil)
	var invalid api.ValidationError
	if err := json.Unmarshal(body, &invalid); err != nil {
		fail("body of a 400", err)
	}
	same("create_flow_with_template: body of a 400", []any{code, len(invalid.Errors), invalid.Errors["name"] != ""}, []any{400, 1, true})
}
