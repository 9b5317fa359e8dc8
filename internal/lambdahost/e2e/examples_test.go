package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/tradewind-broker/tradewind/internal/cli"
	"github.com/tradewind-broker/tradewind/internal/cli/command"
	"github.com/tradewind-broker/tradewind/internal/lambdahost"
	"github.com/tradewind-broker/tradewind/internal/skytest"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// TestSkyPilotExamples submits SkyPilot's own example files that run on AWS without a GPU driver: unchanged, all at
// once, by the command line with signed requests. Machines boot with the real boot script. The rehearsal of clouds runs
// the examples for Google Cloud and Azure.
//
// Without TRADEWIND_LONG=1, sleeps of Python on the machines take a hundredth of their time.
func TestSkyPilotExamples(t *testing.T) {
	if testing.Short() {
		t.Skip("starts emulators")
	}
	t.Setenv("PATH", skytest.Python(t, !skytest.Long())+":"+os.Getenv("PATH"))
	w := deployWith(t, nil, []string{lambdahost.EnvRegions + "=us-east-1,us-east-2"})
	ctx, cancel := context.WithTimeout(t.Context(), hangs)
	defer cancel()
	defer w.agents.Wait()
	defer cancel()
	all := map[string]skytest.Example{}
	t.Cleanup(func() {
		if t.Failed() {
			for id, e := range all {
				_, story := w.request(context.Background(), http.MethodGet, "/v1/jobs/"+id+"/explain", signed)
				t.Logf("%s: %s", e.Name, story)
			}
			t.Log(w.log.String())
		}
	})
	w.offerProgram(ctx)
	t.Chdir(t.TempDir())
	for _, e := range skytest.ExamplesOf("aws") {
		if err := os.WriteFile(e.Name+".yaml", []byte(e.Body), 0o600); err != nil {
			t.Fatal(err)
		}
		var said, errs strings.Builder
		if code := cli.Run(ctx, &cli.Env{Env: command.Env{
			In: strings.NewReader(""), Out: &said, Err: &errs, Now: time.Now, Exit: os.Exit,
			Environ: append(os.Environ(), "TRADEWIND_SIGN_REGION=us-east-1"),
		}}, []string{"submit", e.Name + ".yaml", "--endpoint", w.api.URL, "-o", "json"}); code != 0 {
			t.Fatalf("%s: exit %d\n%s", e.Name, code, errs.String())
		}
		var job struct{ ID string }
		if err := json.Unmarshal([]byte(said.String()), &job); err != nil {
			t.Fatalf("%v in %s", err, said.String())
		}
		all[job.ID] = e
	}
	for _, job := range w.untilAllOver(ctx, len(all), func(i types.Instance) { w.boot(ctx, i) }) {
		e, ok := all[job.ID]
		if !ok || job.State != apitypes.JobSucceeded {
			t.Errorf("%q: %+v", e.Name, job)
			continue
		}
		delete(all, job.ID)
		for rank := range e.Ranks {
			log := w.text(ctx, fmt.Sprintf("/v1/jobs/%s/tasks/0/logs?follow=true&rank=%d", job.ID, rank))
			if err := e.Check(log); err != nil {
				t.Errorf("rank %d: %v", rank, err)
			}
		}
	}
	if len(all) > 0 || t.Failed() {
		t.Fatalf("not seen: %v\n%s", all, w.log.String())
	}
	if running := w.instances(ctx); len(running) > 0 {
		t.Errorf("%d machines are left", len(running))
	}
}
