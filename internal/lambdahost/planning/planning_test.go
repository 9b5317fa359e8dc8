package planning_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/tradewind-broker/tradewind/internal/broker/planinput"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/lambdahost/planning"
	"github.com/tradewind-broker/tradewind/pkg/dag/native"
)

// empty is a bucket without a refreshed catalogue.
type empty struct{}

func (empty) GetObject(context.Context, *s3.GetObjectInput, ...func(*s3.Options)) (*s3.GetObjectOutput, error) {
	return nil, &types.NoSuchKey{}
}

// A deployment that has an agent for only one architecture does not plan machines of the other.
func TestPlansOnlyMachinesWithAgent(t *testing.T) {
	spec, err := native.Parse("job.yaml",
		[]byte("apiVersion: tradewind/v1\nname: j\ntasks: {a: {run: x, time: 1h, resources: {arch: arm64}}}"))
	if err != nil {
		t.Fatal(err)
	}
	digest := strings.Repeat("a", 64)
	for keys, want := range map[string]string{
		"amd64=agent/" + digest + "/a":                              "no agent for arm64 machines",
		"amd64=agent/" + digest + "/a,arm64=agent/" + digest + "/a": "",
		"agent/" + digest + "/a":                                    "",
	} {
		p := &planning.Planner{Client: empty{}, Clouds: []string{"aws", "gcp"}, AgentKey: keys, Now: time.Now,
			Log: slog.New(slog.DiscardHandler)}
		plan, err := p.Plan(t.Context(), planinput.Input{Spec: spec, Now: time.Now()})
		if err != nil {
			t.Fatal(err)
		}
		if refused := plan.Status == record.PlanInfeasible; refused != (want != "") || !strings.Contains(plan.Message, want) {
			t.Errorf("agents %q: %s %q", keys, plan.Status, plan.Message)
		}
	}
}
