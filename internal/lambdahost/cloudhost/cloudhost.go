// Package cloudhost serves the driver of one cloud as a separate Lambda function. The functions that buy and release
// machines call it. Only this function links the cloud's SDK, and the cloud trusts only its role. It does not link the
// broker.
package cloudhost

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/tradewind-broker/tradewind/internal/cloud/driver"
	"github.com/tradewind-broker/tradewind/internal/cloud/remote"
	"github.com/tradewind-broker/tradewind/internal/cloudkit"
	grants "github.com/tradewind-broker/tradewind/internal/grant/remote"
	"github.com/tradewind-broker/tradewind/internal/lambdahost/base"
	"github.com/tradewind-broker/tradewind/internal/secret"
	"github.com/tradewind-broker/tradewind/internal/store/dynamo"
)

// Env is the environment of a cloud's function, a subset of that of other functions.
type Env struct {
	Deployment, Table, API, AgentKey string
	LogLevel                         string
	Settings                         map[string]string // of the cloud, as cloudkit.FromPairs reads them
}

// LoadEnv reads the environment, with the names of package lambdahost. It returns base.ErrEnv for a wrong one.
func LoadEnv(getenv func(string) string) (Env, error) {
	r := base.Reader{Getenv: getenv}
	env := Env{
		Deployment: r.Need("TRADEWIND_DEPLOYMENT"), Table: r.Need("TRADEWIND_TABLE"), API: r.URL("TRADEWIND_API"),
		AgentKey: r.Need("TRADEWIND_AGENT_KEY"), LogLevel: r.Level("TRADEWIND_LOG_LEVEL"),
	}
	if err := r.Err(); err != nil {
		return env, err
	}
	var err error
	if env.Settings, err = driver.ParseSettings(getenv("TRADEWIND_CLOUD")); err != nil {
		return env, fmt.Errorf("%w: TRADEWIND_CLOUD: %w", base.ErrEnv, err)
	}
	return env, nil
}

// Handler answers calls of package remote.
type Handler func(context.Context, json.RawMessage) (json.RawMessage, error)

// Serve runs the function of a cloud. kit returns the cloud's kit, and may use AWS. Serve does not return.
func Serve(kit func(Env, aws.Config) cloudkit.Kit) {
	handler, err := fromEnvironment(kit)
	if err != nil {
		// cannot fail for strings
		line, _ := json.Marshal(map[string]string{"level": "ERROR", "message": "cannot start", "err": err.Error()})
		fmt.Fprintln(os.Stderr, string(line))
		os.Exit(1)
	}
	lambda.Start(handler)
}

func fromEnvironment(kit func(Env, aws.Config) cloudkit.Kit) (Handler, error) {
	env, err := LoadEnv(os.Getenv)
	if err != nil {
		return nil, err
	}
	cfg, err := base.AWSConfig(os.Getenv)
	if err != nil {
		return nil, err
	}
	return New(env, cfg, kit(env, cfg), os.Stdout)
}

// endedFor is how long the name of an ended cluster is remembered: longer than any queue redelivers.
const endedFor = 15 * 24 * time.Hour

// New makes the function's handler. It makes no calls.
func New(env Env, cfg aws.Config, kit cloudkit.Kit, out io.Writer) (Handler, error) {
	var current atomic.Pointer[base.Invocation]
	log := base.NewLog(out, env.LogLevel, "cloud-"+kit.Name, &current)
	st, err := dynamo.New(cfg, env.Table, dynamo.Options{Log: log})
	if err != nil {
		return nil, err
	}
	r := cloudkit.Request{
		Deployment: env.Deployment, PublicURL: env.API, Lookup: os.Getenv, Log: log,
		Graves: driver.StoreGraves(kit.Name, st, endedFor, time.Now),
	}
	if r.Settings, err = cloudkit.FromPairs(env.Settings); err != nil {
		return nil, fmt.Errorf("%w: TRADEWIND_CLOUD: %w", base.ErrEnv, err)
	}
	if r.Agents, err = driver.ParseAgents(env.AgentKey); err != nil {
		return nil, fmt.Errorf("%w: TRADEWIND_AGENT_KEY: %w", base.ErrEnv, err)
	}
	opened, err := kit.Open(context.Background(), r)
	if err != nil {
		return nil, fmt.Errorf("cloud %s: %w", kit.Name, err)
	}
	server := remote.Server{Cloud: opened.Cloud, Checker: opened.Checker, Refresh: opened.Refresh,
		Pushed: opened.Pushed, Files: opened.Files, Announcer: opened.Announcer}
	return func(ctx context.Context, message json.RawMessage) (json.RawMessage, error) {
		current.Store(base.InvocationOf(ctx))
		began := time.Now()
		serve := server.Serve
		switch {
		case opened.Data != nil && grants.IsCall(message):
			serve = grants.Server{Store: opened.Data}.Serve
		case secret.IsCall(message):
			serve = secret.Server{Sources: opened.Secrets}.Serve
		}
		answer, err := serve(ctx, message)
		log.LogAttrs(ctx, slog.LevelDebug, "call", slog.Duration("took", time.Since(began)))
		return answer, err
	}, nil
}
