package deploy_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/deploy"
	"github.com/tradewind-broker/tradewind/internal/emulator"
)

// stuck returns the address of an account in which CloudFormation cannot delete a bucket and a role of a stack. (The
// emulator deletes everything.)
func stuck(t *testing.T) string {
	t.Helper()
	const resource = `<member><LogicalResourceId>%s</LogicalResourceId><PhysicalResourceId>%s</PhysicalResourceId>` +
		`<ResourceType>%s</ResourceType><ResourceStatus>%s</ResourceStatus>` +
		`<ResourceStatusReason>%s</ResourceStatusReason></member>`
	status := "UPDATE_COMPLETE"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		action, body := r.FormValue("Action"), ""
		switch action {
		case "GetCallerIdentity":
			body = `<Account>111122223333</Account>`
		case "DescribeStacks":
			body = `<Stacks><member><StackName>s</StackName><StackId>arn:s</StackId><StackStatus>` + status +
				`</StackStatus></member></Stacks>`
		case "DeleteStack":
			status = "DELETE_FAILED"
		case "DescribeStackResources":
			body = "<StackResources>" +
				fmt.Sprintf(resource, "Work", "s-work", "AWS::S3::Bucket", "DELETE_FAILED",
					`Resource handler returned message: "The bucket you tried to delete is not empty (Service: S3, Status Code: 409, Request ID: X)`) +
				fmt.Sprintf(resource, "Api", "s-api", "AWS::IAM::Role", "DELETE_FAILED",
					"Cannot delete entity, must detach all policies first.") +
				fmt.Sprintf(resource, "Queue", "s-queue", "AWS::SQS::Queue", "DELETE_COMPLETE", "") + "</StackResources>"
		}
		_, _ = fmt.Fprintf(w, "<%[1]sResponse><%[1]sResult>%[2]s</%[1]sResult></%[1]sResponse>", action, body)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// A stack cannot be deleted. The error must name the remaining resources and the next steps. Source: CloudFormation
// User Guide, "Troubleshooting CloudFormation", "Delete stack fails".
func TestFailedDeletionNamesResourcesAndNextSteps(t *testing.T) {
	target, err := deploy.Open(t.Context(), emulator.Config(stuck(t)))
	if err != nil {
		t.Fatal(err)
	}
	target.Look = time.Millisecond
	err = target.Destroy(t.Context(), "s", "s")
	if !errors.Is(err, deploy.ErrUndeleted) {
		t.Fatal(err)
	}
	for _, want := range []string{
		"s-work (AWS::S3::Bucket): The bucket you tried to delete is not empty; empty it: aws s3 rm s3://s-work --recursive",
		"s-api (AWS::IAM::Role): Cannot delete entity, must detach all policies first.; detach",
		"aws iam list-attached-role-policies --role-name s-api", "--destroy again", "--retain-resources Work Api",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing in\n%v", want, err)
		}
	}
	for _, raw := range []string{"s-queue", "Request ID", "Status Code"} {
		if strings.Contains(err.Error(), raw) {
			t.Errorf("%q is in\n%v", raw, err)
		}
	}
}
