package main_test

import (
	"context"
	"errors"
	"testing"

	"github.com/tradewind-broker/tradewind/functions/refresh"
	"github.com/tradewind-broker/tradewind/internal/cloud/driver"
	"github.com/tradewind-broker/tradewind/internal/lambdahost"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
)

type checker struct {
	report driver.Report
	err    error
}

func (c checker) Check(context.Context) (driver.Report, error) { return c.report, c.err }

// The check has the report of each cloud, in the order in which the clouds were added, even if others fail.
func TestCheckClouds(t *testing.T) {
	machines := func(context.Context, string) ([]cloud.Machine, error) {
		return []cloud.Machine{{ID: "a"}, {ID: "b", State: cloud.Terminated}}, nil
	}
	got, err := main.Check(t.Context(), []main.CloudCheck{
		{Name: "gcp", Checker: checker{err: errors.New("the function failed")}, Machines: machines},
		{Name: "aws", Checker: checker{report: driver.Report{Identity: "role", Regions: []string{"r"},
			Quotas: []driver.Quota{{Name: "q", Limit: 7}}}}, Machines: machines},
	})
	if err != nil || len(got.Clouds) != 2 {
		t.Fatalf("%+v, %v", got, err)
	}
	if c := got.Clouds[0]; c.Name != "gcp" || len(c.Missing) != 1 || !c.Missing[0].Fatal || c.Machines != 0 {
		t.Errorf("%+v", c)
	}
	if c := got.Clouds[1]; c.Identity != "role" || c.Machines != 1 || len(c.Quotas) != 1 || c.Quotas[0].Limit != 7 || c.Missing == nil {
		t.Errorf("%+v", c)
	}
}

func TestServeDistinguishesCheckFromBatch(t *testing.T) {
	for text, want := range map[string]bool{
		lambdahost.CheckMessage: true, `{"Records": []}`: false, `{"op": "check", "Records": [{}]}`: false, `[`: false,
	} {
		if got := lambdahost.IsCheck([]byte(text)); got != want {
			t.Errorf("%s: %v", text, got)
		}
	}
}
