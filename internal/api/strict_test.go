package api_test

import (
	"net/http"
	"testing"

	"github.com/tradewind-broker/tradewind/internal/api/apitest"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

func TestRequestsAreHeldToTheirDescription(t *testing.T) {
	w := apitest.New(t)
	for _, c := range []struct{ method, path, body, where string }{
		{"PUT", "/v1/queues/q", `{"weight":null}`, "body.weight"},
		{"PUT", "/v1/queues/q", `null`, "body"},
		{"POST", "/v1/packs/missing", `{"pieces":[{"digest":null,"size":1}]}`, "body.pieces[0].digest"},
		{"POST", "/ga4gh/tes/v1/tasks", `{"executors":[{"image":"i","command":[null]}]}`, "body.executors[0].command[0]"},
		{"POST", "/ga4gh/tes/v1/tasks", `{"tags":{"a":null},"executors":[{"image":"i","command":["true"]}]}`, "body.tags.a"},
		{"GET", "/v1/jobs?limit=1&limit=2", "", "query.limit"},
		{"GET", "/ga4gh/tes/v1/tasks?view=FULL&view=BASIC", "", "query.view"},
		{"GET", "/ga4gh/tes/v1/tasks?view=", "", "query.view"},
		{"GET", "/v1/queues?waiting=", "", "query.waiting"},
		{"GET", "/v1/usage?hours=", "", "query.hours"},
		{"GET", "/v1/usage?hours=NaN", "", "query.hours"},
		{"GET", "/v1/prices?offers=a/b/c/d,", "", "query.offers[1]"},
		{"GET", "/v1/prices?offers=a%00b", "", "query.offers[0]"},
		{"GET", "/v1/jobs/j/visits/0.1/1/machine?wait=soon", "", "query.wait"},
		{"GET", "/v1/jobs/j/visits/0.1/1/machine?wait=-1s", "", "query.wait"},
		{"GET", "/v1/jobs/j/visits/0.1/1/machine?wait=", "", "query.wait"},
	} {
		p := trouble(t, w.Request(c.method, c.path, c.body), http.StatusUnprocessableEntity)
		if len(p.Errors) != 1 || p.Errors[0].Location != c.where {
			t.Errorf("%s %s %s: %+v", c.method, c.path, c.body, p.Errors)
		}
	}
	if res := w.Request("GET", "/ga4gh/tes/v1/tasks?tag_key=a&tag_key=b", ""); res.StatusCode != http.StatusOK {
		t.Errorf("a list that is given twice: %d", res.StatusCode)
	}
	for _, path := range []string{"/v1/jobs?after=", "/ga4gh/tes/v1/tasks?name_prefix=&page_token="} {
		if res := w.Request("GET", path, ""); res.StatusCode != http.StatusOK {
			t.Errorf("%s, of which nothing is the beginning: %d", path, res.StatusCode)
		}
	}
}

func TestAWholeNumberIsAnIntegerHoweverItIsWritten(t *testing.T) {
	w := apitest.New(t)
	for body, want := range map[string]int{`{"weight":187.0}`: 187, `{"weight":2e2}`: 200, `{"weight":7,"description":"1.0"}`: 7} {
		if q := answer[apitypes.Queue](t, w.Request("PUT", "/v1/queues/q", body), http.StatusOK); q.Weight != want {
			t.Errorf("%s: %+v", body, q)
		}
	}
	for _, body := range []string{`{"weight":1.5}`, `{"weight":1e400}`, `{"weight":1} {}`} {
		if res := w.Request("PUT", "/v1/queues/q", body); res.StatusCode == http.StatusOK {
			t.Errorf("%s is taken", body)
		}
	}
}
