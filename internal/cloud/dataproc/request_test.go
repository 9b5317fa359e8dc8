package dataproc_test

import (
	"strings"
	"testing"

	"github.com/tradewind-broker/tradewind/pkg/cloud"
	"github.com/tradewind-broker/tradewind/pkg/cloud/service"
	"github.com/tradewind-broker/tradewind/pkg/cloud/service/servicetest"
)

func contains(t *testing.T, body []byte, want ...string) {
	t.Helper()
	for _, w := range want {
		if !strings.Contains(string(body), w) {
			t.Errorf("the request lacks %s:\n%s", w, body)
		}
	}
}

func TestSpotClusterHasTwoPrimaryWorkersOnDemandAndSecondarySpotWorkers(t *testing.T) {
	h := newHarness(t, "", "b", false)
	spec := h.Spec("words")
	spec.Spot, spec.Executors = true, service.Executors{Min: 5, Max: 10}
	if _, err := h.Service().Create(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
	contains(t, h.Requests("dataproc.projects.regions.clusters.create")[0].Body,
		`"machineTypeUri":"n2-standard-4","numInstances":2`, `"secondaryWorkerConfig":{"numInstances":3,"preemptibility":"SPOT"}`,
		`"idleDeleteTtl":"600s"`, `"autoDeleteTtl":"3600s"`, `"imageVersion":"2.2"`, `"tradewind-job":"j-1"`)
}

func TestJarRunsByItsClass(t *testing.T) {
	for _, batches := range []bool{false, true} {
		h := newHarness(t, "", "b", batches)
		p, err := h.Service().Create(t.Context(), h.Spec("words"))
		if err != nil {
			t.Fatal(err)
		}
		app := h.App("count", servicetest.Prints)
		app.Main, app.Class, app.Jars, app.Packages = "gs://b/app.jar", "org.example.Main", []string{"gs://b/lib.jar"}, []string{"g:a:1"}
		_, err = h.Service().Submit(t.Context(), p, app)
		for cloud.KindOf(err) == cloud.Throttled {
			_, err = h.Service().Submit(t.Context(), p, app)
		}
		if err != nil {
			t.Fatal(err)
		}
		all := h.Requests("dataproc.projects.regions.jobs.submit", "dataproc.projects.locations.batches.create")
		contains(t, all[0].Body, `"jarFileUris":["gs://b/app.jar","gs://b/lib.jar"],"mainClass":"org.example.Main"`,
			`"spark.jars.packages":"g:a:1"`)
	}
}

func TestPermissionsOfAClusterAreNotTheTasksFault(t *testing.T) {
	h := newHarness(t, "", "b", false)
	h.FailCluster("Required 'compute.instances.create' permission for 'projects/demo'")
	p, err := h.Service().Create(t.Context(), h.Spec("words"))
	for err == nil && p.Why == nil {
		p, _, err = h.Service().Watch(t.Context(), p, service.Run{})
	}
	if err != nil || p.Why.Kind != cloud.Auth {
		t.Errorf("%+v, %v", p.Why, err)
	}
}
