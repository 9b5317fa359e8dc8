package account

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/scheduler"
	"github.com/aws/aws-sdk-go-v2/service/scheduler/types"

	"github.com/tradewind-broker/tradewind/internal/deploy"
)

// addedTopic is the logical ID of the resource that an update adds to the template.
const addedTopic = "RehearsedUpdate"

// Console gives access to the account to clients outside of the deployment. In addition to the work of the emulators,
// an update of the deployment's stack sets every mapping and schedule to its state in the template, as CloudFormation
// does with the properties of a changed resource, and replaces the processes of the functions. Functions can be
// invoked.
type Console struct {
	world   *World
	next    http.Handler
	updates atomic.Int32
	invoked atomic.Int32
	URL     string
}

// Console starts to serve the account to clients.
func (w *World) Console(ctx context.Context) (*Console, error) {
	front, err := front(w.emulated.moto.Endpoint, w.emulated.local.Endpoint, w.Log)
	if err != nil {
		return nil, err
	}
	c := &Console{world: w, next: front}
	c.URL, err = w.serve(ctx, c)
	return c, err
}

// Updates returns how many updates of a stack were executed, and Invoked how many invocations of functions were
// accepted.
func (c *Console) Updates() int { return int(c.updates.Load()) }

// Invoked returns how many invocations of functions were accepted.
func (c *Console) Invoked() int { return int(c.invoked.Load()) }

// ServeHTTP implements http.Handler.
func (c *Console) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody))
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	service := callerOf(r).service
	if name := invoked(r); service == "lambda" && name != "" {
		c.invoke(w, r, name, string(body))
		return
	}
	if service == "cloudformation" && c.executes(body) {
		if err := c.world.resetState(r.Context()); err != nil {
			fail(w, service, http.StatusInternalServerError, "InternalFailure", err.Error())
			return
		}
		c.updates.Add(1)
	}
	c.next.ServeHTTP(w, r)
}

// executes reports whether a request executes a change of the deployment's own stack.
func (c *Console) executes(body []byte) bool {
	form, err := url.ParseQuery(string(body))
	return err == nil && form.Get("Action") == "ExecuteChangeSet" && form.Get("StackName") == c.world.Stack.Name
}

// invoke invokes a function and answers with its result. A function that fails answers with its error and status 200
// (Lambda API reference, "Invoke": InvocationType RequestResponse, FunctionError).
func (c *Console) invoke(w http.ResponseWriter, r *http.Request, name, event string) {
	fn := c.world.Functions[name]
	if r.Header.Get("X-Amz-Invocation-Type") != "" || fn == nil {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	c.invoked.Add(1)
	w.Header().Set("Content-Type", "application/json")
	answer, err := fn.Invoke(r.Context(), []byte(event))
	if err != nil {
		w.Header().Set("X-Amz-Function-Error", "Unhandled")
		answer, _ = json.Marshal(map[string]string{"errorType": "Runtime.ExitError", "errorMessage": err.Error()})
	}
	_, _ = w.Write(answer) //nolint:gosec // the JSON of a function of the deployment
}

// resetState sets mappings and schedules to their states in the template.
func (w *World) resetState(ctx context.Context) error {
	for _, m := range w.Mappings {
		m.set(m.deployed)
	}
	for _, s := range w.Template.Of("AWS::Scheduler::Schedule") {
		name := s.Text("Name")
		is, err := w.clockwork.scheduler.GetSchedule(ctx,
			&scheduler.GetScheduleInput{GroupName: &w.clockwork.group, Name: &name})
		if err != nil {
			return err
		}
		_, err = w.clockwork.scheduler.UpdateSchedule(ctx, &scheduler.UpdateScheduleInput{
			GroupName: &w.clockwork.group, Name: &name, State: types.ScheduleState(s.Text("State")),
			ScheduleExpression: is.ScheduleExpression, FlexibleTimeWindow: is.FlexibleTimeWindow, Target: is.Target,
			Description: is.Description,
		})
		if err != nil {
			return err
		}
	}
	for _, f := range w.Functions {
		f.Close()
	}
	return nil
}

// UpdatedAssembly writes a folder like infra's output, with the deployed templates plus one topic in the first one, and
// returns it.
func (w *World) UpdatedAssembly() (string, error) {
	dir := filepath.Join(w.Dir, "update")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	artifacts := map[string]any{}
	for i, s := range append([]deploy.Stack{w.Stack}, w.Further...) {
		if err := w.writeStack(dir, s, i == 0); err != nil {
			return "", fmt.Errorf("rehearsal: update: %w", err)
		}
		region := s.Region
		if region == "" {
			region = Region
		}
		artifacts[s.Name] = map[string]any{
			"type": "aws:cloudformation:stack", "environment": "aws://" + account + "/" + region,
			"properties": map[string]any{"templateFile": s.Name + ".template.json", "stackName": s.Name},
		}
	}
	return dir, writeJSON(filepath.Join(dir, "manifest.json"), map[string]any{"artifacts": artifacts})
}

// writeStack writes the template and the list of assets of a stack.
func (w *World) writeStack(dir string, s deploy.Stack, change bool) error {
	var template struct{ Resources map[string]any }
	raw, err := os.ReadFile(filepath.Join(w.Dir, s.Name+".template.json")) // as it was deployed
	if err != nil {
		return err
	}
	if err := json.Unmarshal(raw, &template); err != nil {
		return err
	}
	if change {
		template.Resources[addedTopic] = map[string]any{"Type": "AWS::SNS::Topic",
			"Properties": map[string]any{"TopicName": s.Name + "-rehearsed"}}
	}
	path := s.Name + ".template.json"
	if err := writeJSON(filepath.Join(dir, path), template); err != nil {
		return err
	}
	files := map[string]any{"template": asset(s.Template, path, "updated-"+s.Template.Key)}
	for i, a := range s.Assets {
		from, err := filepath.Rel(dir, a.Path)
		if err != nil {
			return err
		}
		files[fmt.Sprint(i)] = asset(a, from, a.Key)
	}
	return writeJSON(filepath.Join(dir, s.Name+".assets.json"), map[string]any{"files": files})
}

func asset(a deploy.Asset, path, key string) map[string]any {
	packaging := "file"
	if a.Zip {
		packaging = "zip"
	}
	return map[string]any{
		"displayName": a.Name, "source": map[string]any{"path": path, "packaging": packaging},
		"destinations": map[string]any{"here": map[string]any{"bucketName": a.Bucket, "objectKey": key}},
	}
}

func writeJSON(path string, v any) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return os.WriteFile(path, raw, 0o600)
}

// Awake returns an error that names the mappings, and the schedules with one of the names, that are off.
func (w *World) Awake(ctx context.Context, schedules ...string) error {
	var off []string
	for _, m := range w.Mappings {
		if on, _ := m.Enabled(); !on {
			off = append(off, "polling for "+m.Function)
		}
	}
	for _, name := range schedules {
		s, err := w.clockwork.scheduler.GetSchedule(ctx,
			&scheduler.GetScheduleInput{GroupName: aws.String(w.clockwork.group), Name: &name})
		if err != nil {
			return err
		}
		if s.State != types.ScheduleStateEnabled {
			off = append(off, "schedule "+name)
		}
	}
	if len(off) > 0 {
		return fmt.Errorf("off: %s", strings.Join(off, ", "))
	}
	return nil
}
