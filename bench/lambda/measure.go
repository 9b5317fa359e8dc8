package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/tradewind-broker/tradewind/internal/benchreport"
	"github.com/tradewind-broker/tradewind/internal/lambdabuild"
)

// The targets that RESULTS.md shows next to the measurements.
const (
	targetCold   = "100 ms"
	targetSize   = "20 MB"
	targetMemory = "512 MB"
)

// start is one cold start.
type start struct {
	ready, first time.Duration // to the first request for work; to the first response
	cpu          time.Duration // processor time until the end
	memory       int64         // peak resident bytes
}

// event is the first invocation of a function. It passes through all of the handler's code, but nothing in it concerns
// any records.
func event(name string) string {
	switch name {
	case "api":
		return `{"version":"2.0","rawPath":"/healthz","headers":{"host":"api.example.com"},` +
			`"requestContext":{"domainName":"api.example.com","stage":"$default",` +
			`"http":{"method":"GET","path":"/healthz"}}}`
	case "relay":
		return `{"Records":[]}`
	default:
		return `{"Records":[]}`
	}
}

// settings are those of the functions for other clouds.
var settings = map[string]string{
	"cloud-azure":  "subscription=8d10da13-8125-4ba9-a717-bf7490507b3d,regions=eastus",
	"cloud-gcp":    "project=demo,regions=us-central1",
	"cloud-lambda": "regions=us-east-1",
}

// measureAll builds everything for this machine and starts each function several times.
func measureAll(ctx context.Context, runs int, page string) error {
	dir, err := os.MkdirTemp("", "tradewind-lambda-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a temporary folder
	names, err := lambdabuild.Functions()
	if err != nil {
		return err
	}
	slices.Sort(names)
	nowhere := httptest.NewServer(http.NotFoundHandler()) // the rest of AWS
	defer nowhere.Close()
	files := map[string]string{}
	for _, name := range append([]string{"hello"}, names...) {
		files[name] = filepath.Join(dir, name)
		module, pkg := ".", "./functions/"+name
		if name == "hello" {
			module, pkg = "bench", "./lambda/hello"
		}
		fmt.Fprintln(os.Stderr, "building", name)
		if err := lambdabuild.Build(ctx, module, pkg, runtime.GOARCH, files[name]); err != nil {
			return err
		}
	}
	// All functions in turn, several times, so that other load on the machine affects all of them.
	starts := map[string][]start{}
	for range runs {
		for name, file := range files {
			s, err := coldStart(ctx, file, event(name), settings[name], nowhere.URL)
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			starts[name] = append(starts[name], s)
		}
	}
	return writeSection(ctx, names, files, starts, page)
}

// coldStart starts a function, lets it handle one event and ends it.
func coldStart(ctx context.Context, file, event, cloud, aws string) (s start, err error) {
	api, err := newRuntimeAPI(event)
	if err != nil {
		return s, err
	}
	defer api.close()
	cmd := exec.CommandContext(ctx, file)
	cmd.Env = append(environment(api.addr, aws), "TRADEWIND_CLOUD="+cloud)
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &log, &log
	began := time.Now()
	if err := cmd.Start(); err != nil {
		return s, err
	}
	var failed error
	select {
	case at := <-api.asked:
		s.ready = at.Sub(began)
		select {
		case a := <-api.answer:
			s.first = a.at.Sub(began)
			if !a.ok || strings.Contains(a.body, "errorMessage") {
				failed = fmt.Errorf("answered %s", a.body)
			}
		case <-time.After(30 * time.Second):
			failed = errors.New("did not answer")
		}
	case <-time.After(30 * time.Second):
		failed = errors.New("did not ask for work")
	case a := <-api.answer:
		failed = fmt.Errorf("failed to start: %s", a.body)
	}
	_ = cmd.Process.Kill() // it has done its work
	_ = cmd.Wait()         // it was killed
	if failed != nil {
		return s, fmt.Errorf("%w: %s", failed, log.String())
	}
	s.cpu = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	if usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
		s.memory = usage.Maxrss << 10
	}
	return s, nil
}

// environment is the environment of a deployed function.
func environment(runtimeAPI, aws string) []string {
	return []string{
		"AWS_LAMBDA_RUNTIME_API=" + runtimeAPI, "AWS_LAMBDA_FUNCTION_NAME=tradewind",
		"AWS_LAMBDA_FUNCTION_MEMORY_SIZE=256",
		"AWS_REGION=us-east-1", "AWS_ACCESS_KEY_ID=test", "AWS_SECRET_ACCESS_KEY=test", "AWS_ENDPOINT_URL=" + aws, "GOMAXPROCS=1", //nolint:gosec // no secrets
		"TRADEWIND_DEPLOYMENT=tradewind", "TRADEWIND_TABLE=tradewind", "TRADEWIND_BUS=tradewind",
		"TRADEWIND_QUEUE_PREFIX=tradewind-",
		"TRADEWIND_DAG_BUCKET=dags", "TRADEWIND_WORK_BUCKET=work", "TRADEWIND_API=https://api.example.com",
		"TRADEWIND_TOKEN_PARAMETER=/tradewind/token-key", "TRADEWIND_AGENT_KEY=agent/" + strings.Repeat("0", 64) +
			"/tradewind",
		"TRADEWIND_SCHEDULES=tick,reconcile", "TRADEWIND_MAPPINGS=bid",
	}
}

// writeSection writes the section.
func writeSection(ctx context.Context, names []string, files map[string]string, starts map[string][]start, page string) error {
	var b strings.Builder
	fmt.Fprintf(&b, "Cold starts of the real binaries under the Lambda Runtime API, one processor (`GOMAXPROCS=1`), "+
		"medians of %d starts in turn. "+
		"*ready* is from the start of the process to its first request for work, *answered* to its first answer, "+
		"which goes through the function's own code and reads no records. "+
		"*hello* is a Lambda function in Go that does nothing. Lambda's own part, fetching the code and starting the "+
		"sandbox, is added to this and not measured.\n\n", len(starts["hello"]))
	fmt.Fprintf(&b, "Targets: %s, %s, %s of memory. Measure again with `make bench-lambda`. Sizes are for the "+
		"processor architecture of the measuring machine: x86 code is a tenth larger than arm64, the default of "+
		"deployments; the build fails if a function is above 20 MB on either.\n\n", targetSize, targetCold, targetMemory)
	b.WriteString("| function | size | ready | slowest | answered | processor | memory | relative to hello |\n" +
		"| --- | --- | --- | --- | --- | --- | --- | --- |\n")
	base := middle(starts["hello"], func(s start) float64 { return ms(s.ready) })
	for _, name := range append([]string{"hello"}, names...) {
		size, err := lambdabuild.Bytes(files[name])
		if err != nil {
			return err
		}
		list := starts[name]
		ready := middle(list, func(s start) float64 { return ms(s.ready) })
		slowest := slices.MaxFunc(list, func(a, b start) int { return int(a.ready - b.ready) })
		fmt.Fprintf(&b, "| %s | %.1f MB | %.1f ms | %.1f ms | %.1f ms | %.0f ms | %.0f MB | %.1f× |\n", name, lambdabuild.MB(size),
			ready, ms(slowest.ready), middle(list, func(s start) float64 {
				return ms(s.first)
			}), middle(list, func(s start) float64 { return ms(s.cpu) }),
			middle(list, func(s start) float64 { return lambdabuild.MB(s.memory) }), ready/base)
	}
	usd, err := costs(ctx)
	if err != nil {
		return err
	}
	b.WriteString(usd)
	if page == "" {
		fmt.Print(b.String())
		return nil
	}
	return benchreport.Write(page, "Lambda functions", b.String(), time.Now())
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func middle(list []start, of func(start) float64) float64 {
	values := make([]float64, len(list))
	for i, s := range list {
		values[i] = of(s)
	}
	slices.Sort(values)
	return values[len(values)/2]
}
