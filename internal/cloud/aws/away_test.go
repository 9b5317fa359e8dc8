package aws_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/tradewind-broker/tradewind/internal/cloud/aws"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
)

// The deployment names an AMI, which belongs to one region. A task that is planned in another region must not fail
// for good.
func TestLaunchWithMissingDeploymentImageIsQuota(t *testing.T) {
	for _, ofTask := range []bool{true, false} {
		want := cloud.Quota
		w := newWorld(t, func(cfg *aws.Config) {
			if !ofTask {
				cfg.Images = map[string]string{"amd64": "ami-12345678"}
			}
		})
		s := w.spec("c", onDemand, 1)
		if ofTask {
			s.Image, want = "ami-12345678", cloud.Invalid
		}
		w.proxy.refuse("DescribeImages", -1, "InvalidAMIID.NotFound",
			"The image id '[ami-12345678]' does not exist", http.StatusBadRequest, nil)
		if _, err := w.aws.Launch(t.Context(), s); cloud.KindOf(err) != want {
			t.Errorf("image named by the task: %v: %v, want %s", ofTask, err, want)
		}
	}
}

// After a launch of two machines, a list has only one of them. The cluster must not count as lost.
func TestLaunchSurvivesLaggingList(t *testing.T) {
	w := newWorld(t, nil)
	w.proxy.lose("RunInstances", 1)
	second := regexp.MustCompile(
		`(?s)(<instancesSet><item><architecture>.*?)<item><architecture>.*?(</instancesSet>)`)
	seen := 0
	lag := &rule{action: "DescribeInstances", times: -1, act: func(rw http.ResponseWriter, _ *http.Request,
		forward func(http.ResponseWriter)) {
		rec := httptest.NewRecorder()
		forward(rec)
		body := rec.Body.String()
		if m := second.FindStringSubmatch(body); m != nil && seen == 0 {
			seen++
			body = second.ReplaceAllString(body, "$1$2")
		}
		for k, v := range rec.Header() {
			if k != "Content-Length" {
				rw.Header()[k] = v
			}
		}
		rw.WriteHeader(rec.Code)
		_, _ = io.WriteString(rw, body)
	}}
	w.proxy.add(lag)
	_, err := w.aws.Launch(t.Context(), w.spec("c", onDemand, 2))
	if seen == 0 {
		t.Fatalf("the lagging list was not used: %v", err)
	}
	if err != nil && cloud.KindOf(err) != cloud.Transient {
		t.Errorf("a lost answer and a lagging list fail the task for good: %v", err)
	}
	if n := w.left("us-east-1"); n == 1 {
		t.Errorf("half the cluster is ended, half still runs, and the error does not report it (late %d)", cloud.Late(err))
	}
}

// One region refused a launch. Its termination there must work even if another region does not answer.
func TestTerminateIgnoresOutageOfOtherRegion(t *testing.T) {
	w := newWorld(t, func(cfg *aws.Config) {
		cfg.Home, cfg.Regions = "us-east-1", []string{"us-east-1", "eu-west-1"}
	})
	w.proxy.refuse("RunInstances", -1, "InternalError", "An internal error has occurred",
		http.StatusInternalServerError, nil)
	w.proxy.add(&rule{action: "DescribeInstances", times: -1, act: func(rw http.ResponseWriter, r *http.Request,
		forward func(http.ResponseWriter)) {
		if strings.Contains(r.Header.Get("Authorization"), "/eu-west-1/") {
			writeError(rw, "Unavailable", "The server is overloaded", http.StatusServiceUnavailable, nil)
			return
		}
		forward(rw)
	}})
	if _, err := w.aws.Launch(t.Context(), w.spec("c", onDemand, 1)); cloud.KindOf(err) != cloud.Transient {
		t.Fatal(err)
	}
	if err := w.aws.Terminate(t.Context(), "c"); err != nil { // as the broker does before it replans
		t.Errorf("a launch that failed in us-east-1 cannot be terminated: %v", err)
	}
}
