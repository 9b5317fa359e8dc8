// Package cloudhost serves the drivers of one cloud as a separate Lambda function: that of its machines, and those of
// its managed services. The functions that buy and release machines call it. Only this function links the cloud's SDK,
// and the cloud trusts only its role. It does not link the broker.
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
	opened, services, err := openAll(context.Background(), kit, r)
	if err != nil {
		return nil, fmt.Errorf("cloud %s: %w", kit.Name, err)
	}
	server := remote.Server{Name: kit.Name, Cloud: opened.Cloud, Checker: checker{opened.Checker, services},
		Refresh: opened.Refresh, Pushed: opened.Pushed, Files: opened.Files, Announcer: opened.Announcer,
		Services: services.Of}
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

// openAll opens a cloud and its managed services. A kit without Open only has services.
func openAll(ctx context.Context, kit cloudkit.Kit, r cloudkit.Request) (*cloudkit.Opened, *cloudkit.Services, error) {
	services, err := kit.OpenServices(ctx, r)
	if err != nil || kit.Open == nil {
		return &cloudkit.Opened{}, services, err
	}
	opened, err := kit.Open(ctx, r)
	return opened, services, err
}

// checker checks a cloud and its services.
type checker struct {
	cloud    driver.Checker // nil if the function only has services
	services *cloudkit.Services
}

// Check implements driver.Checker.
func (c checker) Check(ctx context.Context) (r driver.Report, err error) {
	if c.cloud != nil {
		if r, err = c.cloud.Check(ctx); err != nil {
			return r, err
		}
	}
	r.Missing = append(r.Missing, c.services.Lacks(ctx)...)
	return r, nil
}
