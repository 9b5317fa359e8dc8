package aws_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/tradewind-broker/tradewind/internal/cloud/aws"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
)

// A task names an image that the account may not use. This is the task's fault, so the cloud must not be blocked for
// other tasks.
func TestForbiddenImageBlamesWhoeverNamesIt(t *testing.T) {
	for name, c := range map[string]struct{ image, action, code, words string }{
		"a parameter":         {"ssm:/secret/image", "GetParameter", "AccessDeniedException", "is not authorized to perform: ssm:GetParameter"},
		"an image":            {"ami-12345678", "DescribeImages", "AuthFailure", "Not authorized for images: [ami-12345678]"},
		"an image, at launch": {"ssm:/aws/service/ami-amazon-linux-latest/al2023-ami-kernel-default-x86_64", "RunInstances", "AuthFailure", "Not authorized for images: [ami-1]"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, ofTask := range []bool{true, false} {
				want := cloud.Quota
				w := newWorld(t, func(cfg *aws.Config) {
					if !ofTask {
						cfg.Images = map[string]string{"amd64": c.image}
					}
				})
				spec := w.spec("c", onDemand, 1)
				if ofTask {
					spec.Image, want = c.image, cloud.Invalid
				}
				w.proxy.refuse(c.action, -1, c.code, c.words, http.StatusForbidden, nil)
				if c.action == "GetParameter" { // SSM's requests and answers are JSON
					w.proxy.rules[0].act = func(rw http.ResponseWriter, _ *http.Request, _ func(http.ResponseWriter)) {
						rw.WriteHeader(http.StatusBadRequest)
						fmt.Fprintf(rw, `{"__type":%q,"message":%q}`, c.code, c.words)
					}
				}
				if _, err := w.aws.Launch(t.Context(), spec); cloud.KindOf(err) != want || !strings.Contains(err.Error(), c.words) {
					t.Errorf("image named by the task: %v: %v", ofTask, err)
				}
			}
		})
	}
}
