package api_test

import (
	"fmt"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/api/apitest"
	"github.com/tradewind-broker/tradewind/internal/broker"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

func TestAListOfJobsReadsWhatItShowsHoweverManyThereWere(t *testing.T) {
	const jobs = 10_000
	w := apitest.New(t)
	for i := range jobs {
		spec := apitest.Wide(fmt.Sprintf("job-%05d", i), 1)
		if _, err := w.Broker.Users.Submit(t.Context(), broker.Submission{Spec: spec, Token: spec.Name}); err != nil {
			t.Fatal(err)
		}
		w.Clock.Advance(time.Second)
	}
	w.Store.Take()
	l := answer[apitypes.JobList](t, w.Request("GET", "/v1/jobs?limit=20", ""), http.StatusOK)
	if len(l.Jobs) != 20 || l.Jobs[0].Name != "job-09999" || l.Next == "" {
		t.Errorf("%d jobs from %s on, next %q", len(l.Jobs), l.Jobs[0].Name, l.Next)
	}
	if r := w.Store.Take(); r.Requests > 2 || r.Records > 20*5 {
		t.Errorf("20 jobs of %d took %+v", jobs, r)
	}
	seen := len(l.Jobs)
	for l.Next != "" {
		l = answer[apitypes.JobList](t, w.Request("GET", "/v1/jobs?limit=1000&after="+url.QueryEscape(l.Next), ""), http.StatusOK)
		for _, j := range l.Jobs {
			if want := fmt.Sprintf("job-%05d", jobs-1-seen); j.Name != want {
				t.Fatalf("%s where %s belongs", j.Name, want)
			}
			seen++
		}
	}
	if seen != jobs {
		t.Errorf("%d of %d jobs were listed", seen, jobs)
	}
	if r := w.Store.Take(); r.Requests > 10*(1+31) {
		t.Errorf("all of them took %+v", r)
	}
}
