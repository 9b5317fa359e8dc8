package emr_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/tradewind-broker/tradewind/internal/cloud/emr"
	"github.com/tradewind-broker/tradewind/internal/emulator/emr/emrtest"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
	"github.com/tradewind-broker/tradewind/pkg/cloud/service"
	"github.com/tradewind-broker/tradewind/pkg/cloud/service/servicetest"
)

func contains(t *testing.T, body any, want ...string) {
	t.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range want {
		if !strings.Contains(string(text), w) {
			t.Errorf("the request lacks %s:\n%s", w, text)
		}
	}
}

func TestSpotClusterHasOneCoreNodeOnDemandAndSpotTaskNodes(t *testing.T) {
	h := newHarness(t)
	spec := h.Spec("words")
	spec.Spot, spec.Executors, spec.DiskGiB = true, service.Executors{Min: 3, Max: 10}, 50
	if _, err := h.Service().Create(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
	contains(t, h.Requests("RunJobFlow")[0].Body,
		`{"InstanceCount":1,"InstanceRole":"MASTER","InstanceType":"m5.xlarge","Market":"ON_DEMAND"}`,
		`{"InstanceCount":1,"InstanceRole":"CORE","InstanceType":"m5.xlarge","Market":"ON_DEMAND"}`,
		`{"InstanceCount":2,"InstanceRole":"TASK","InstanceType":"m5.xlarge","Market":"SPOT"}`,
		`"ComputeLimits":{"MaximumCapacityUnits":10,"MaximumCoreCapacityUnits":1,"MaximumOnDemandCapacityUnits":1,`+
			`"MinimumCapacityUnits":3,"UnitType":"Instances"}`,
		`"AutoTerminationPolicy":{"IdleTimeout":600}`, `"ReleaseLabel":"emr-7.5.0"`, `"EbsRootVolumeSize":50`,
		`"JobFlowRole":"EMR_EC2_DefaultRole"`, `"ServiceRole":"EMR_DefaultRole"`,
		`{"Key":"tradewind:job","Value":"j-1"}`, `"Key":"tradewind:deployment"`)
}

func TestStepHasTheApplicationWithItsFilesAndProperties(t *testing.T) {
	h := newHarness(t)
	p, err := h.Service().Create(t.Context(), h.Spec("words"))
	if err != nil {
		t.Fatal(err)
	}
	app := h.App("count", servicetest.Prints)
	app.Args, app.PyFiles = []string{"a b", "$x"}, []string{"s3://b/one.py", "s3://b/two.zip"}
	app.Packages, app.Conf = []string{"g:a:1"}, map[string]string{"spark.dynamicAllocation.maxExecutors": "7"}
	if _, err := h.Service().Submit(t.Context(), p, app); err != nil {
		t.Fatal(err)
	}
	contains(t, h.Requests("AddJobFlowSteps")[0].Body,
		`"Args":["spark-submit","--deploy-mode","client","--py-files","s3://b/one.py,s3://b/two.zip","--packages","g:a:1",`+
			`"--conf","spark.dynamicAllocation.enabled=true"`,
		`"spark.dynamicAllocation.maxExecutors=7"`, app.Main+`","a b","$x"]`, `"ActionOnFailure":"CONTINUE"`,
		`"Jar":"command-runner.jar"`)
}

func TestLateFailuresOfAClusterHaveAKind(t *testing.T) {
	for _, c := range []struct {
		code, detail, message string
		want                  cloud.Kind
	}{
		{"BOOTSTRAP_FAILURE", "BOOTSTRAP_FAILURE_PRIMARY_WITH_NON_ZERO_CODE", "exit code 1", cloud.Capacity},
		{"INTERNAL_ERROR", "INTERNAL_ERROR_SPOT_NO_CAPACITY_PRIMARY", "no spot capacity", cloud.Capacity},
		{"VALIDATION_ERROR", "", "The requested instance type is not supported in this Availability Zone", cloud.Capacity},
		{"VALIDATION_ERROR", "", "You have exceeded the limit of instances", cloud.Quota},
		{"VALIDATION_ERROR", "", "The role EMR_DefaultRole is invalid", cloud.Auth},
	} {
		h := newHarness(t)
		h.Cloud.FailLate(c.code, c.detail, c.message)
		p, err := h.Service().Create(t.Context(), h.Spec("late"))
		for err == nil && p.State != service.Ended {
			p, _, err = h.Service().Watch(t.Context(), p, service.Run{})
		}
		if err != nil || p.Why == nil || p.Why.Kind != c.want || p.Why.Message != c.message {
			t.Errorf("%s: %+v, %v; want %s", c.message, p.Why, err, c.want)
		}
	}
}

// Two processes create the same cluster at the same time, so EMR has two. The younger one must be ended.
func TestTheYoungerOfTwoClustersOfAPlaceEnds(t *testing.T) {
	h := newHarness(t)
	spec := h.Spec("twice")
	first, err := h.Service().Create(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	// Once, this driver gets an empty list of clusters, so it believes that the cluster does not exist.
	blind := emr.New(emrtest.Blind(h.World, "ListClusters", 2), emr.Config{Deployment: h.Deployment})
	second, err := blind.Create(t.Context(), spec)
	if err != nil || second.ID != first.ID || h.Made() != 2 {
		t.Errorf("first %s, then %s, %d made: %v", first.ID, second.ID, h.Made(), err)
	}
	if _, err := h.Service().Places(t.Context()); err != nil || h.World.Left() != 1 {
		t.Errorf("%d are left, %v", h.World.Left(), err)
	}
}
