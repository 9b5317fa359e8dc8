package lambdahost_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/tradewind-broker/tradewind/internal/lambdahost"
)

// deployed is the environment of a function as infra/ sets it.
func deployed() map[string]string {
	return map[string]string{
		"TRADEWIND_DEPLOYMENT": "tw", "TRADEWIND_TABLE": "tw", "TRADEWIND_BUS": "tw", "TRADEWIND_QUEUE_PREFIX": "tw-",
		"TRADEWIND_DAG_BUCKET": "tw-dags", "TRADEWIND_WORK_BUCKET": "tw-work", "TRADEWIND_API": "https://api.example.com/",
		"TRADEWIND_TOKEN_PARAMETER": "/tw/token-key", "TRADEWIND_AGENT_KEY": "agent/" + strings.Repeat("a", 64) + "/tradewind",
		"TRADEWIND_SCHEDULES": "tick, reconcile,", "TRADEWIND_MAPPINGS": "bid,advance",
	}
}

func load(env map[string]string) (lambdahost.Env, error) {
	return lambdahost.LoadEnv(func(name string) string { return env[name] })
}

func TestLoadEnv(t *testing.T) {
	env, err := load(deployed())
	if err != nil {
		t.Fatal(err)
	}
	if env.API != "https://api.example.com" || len(env.Schedules) != 2 || env.Schedules[1] != "reconcile" || env.Clouds[0] != "aws" ||
		env.LogLevel != "info" || env.QueuePrefix != "tw-" || env.Function("bid") != "tw-bid" {
		t.Errorf("%+v", env)
	}
}

func TestLoadEnvNamesAllWrongVariables(t *testing.T) {
	bad := deployed()
	delete(bad, "TRADEWIND_TABLE")
	bad["TRADEWIND_WORK_BUCKET"] = ""
	bad["TRADEWIND_API"] = "api.example.com"
	bad["TRADEWIND_LOG_LEVEL"] = "loud"
	_, err := load(bad)
	if !errors.Is(err, lambdahost.ErrEnv) {
		t.Fatal(err)
	}
	for _, want := range []string{"TRADEWIND_TABLE is not set", "TRADEWIND_WORK_BUCKET is not set", `TRADEWIND_API is "api.example.com"`, `TRADEWIND_LOG_LEVEL is "loud"`} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q does not say %q", err, want)
		}
	}
}
