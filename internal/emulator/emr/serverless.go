package emr

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/internal/emulator/sparkjob"
)

type application struct {
	id, state string
	hidden    int // lists that lack it
	runs      []*jobRun
}

type jobRun struct {
	id, state, details string
	args               []string
	logs               string
	hidden             int // lists that lack it
	made               time.Time
	usage              sparkjob.Usage
	stop               context.CancelFunc
}

func (r *jobRun) ended() bool {
	return r.state == "SUCCESS" || r.state == "FAILED" || r.state == "CANCELLED"
}

// begin starts a job run that has been accepted.
func (c *Cloud) begin(a *application, r *jobRun) {
	if r.state != "SUBMITTED" || time.Since(r.made) < c.boots[1] {
		return
	}
	r.usage.From = time.Now()
	a.state, r.state = "STARTED", "RUNNING"
	r.stop = c.start(r.args, r.logs+"applications/"+a.id+"/jobs/"+r.id+"/SPARK_DRIVER/", func(result sparkjob.Result) {
		r.usage.Until = time.Now()
		switch {
		case r.state != "RUNNING":
		case result.Err != nil:
			r.state, r.details = "FAILED", "Job failed, please check complete logs in configured logging destination. "+
				"ExitCode: 1. Last few exceptions: "+result.Err.Error()
		default:
			r.state = "SUCCESS"
		}
	})
}

// serverless handles a request to EMR Serverless.
func (c *Cloud) serverless(in *call) (int, []byte, *Refusal) {
	if in.action == "CreateApplication" || in.action == "ListApplications" {
		return c.applications(in)
	}
	c.mu.Lock()
	a := c.apps[in.path[1]]
	c.mu.Unlock()
	if a == nil {
		return 0, nil, &Refusal{"ResourceNotFoundException", "Application " + in.path[1] + " does not exist",
			http.StatusNotFound, 0}
	}
	switch in.action {
	case "StartJobRun":
		return c.startJobRun(in, a)
	case "ListJobRuns":
		return c.listJobRuns(in, a)
	case "GetJobRun":
		status, out := c.ask(in, nil)
		c.mu.Lock()
		defer c.mu.Unlock()
		a.patch(object(out["jobRun"]), "jobRunId")
		return encode(status, out)
	case "CancelJobRun":
		return c.cancelJobRun(in, a)
	case "StopApplication", "DeleteApplication":
		return c.endApplication(in, a)
	}
	status, out := c.ask(in, in.body)
	c.mu.Lock()
	defer c.mu.Unlock()
	if app := object(out["application"]); app != nil {
		app["state"] = a.state
	}
	return encode(status, out)
}

func (c *Cloud) applications(in *call) (int, []byte, *Refusal) {
	if in.action == "CreateApplication" {
		status, out := c.ask(in, in.body)
		c.mu.Lock()
		defer c.mu.Unlock()
		if id := text(out["applicationId"]); id != "" {
			c.apps[id] = &application{id: id, state: "CREATED", hidden: c.lag}
		}
		return encode(status, out)
	}
	states := in.URL.Query()["states"]
	in.URL.RawQuery = ""
	status, out := c.ask(in, nil)
	c.mu.Lock()
	defer c.mu.Unlock()
	out["applications"] = slices.DeleteFunc(list(out["applications"]), func(e any) bool {
		app := object(e)
		if a := c.apps[text(app["id"])]; a != nil {
			if app["state"] = a.state; a.hidden > 0 {
				a.hidden--
				return true
			}
		}
		return len(states) > 0 && !slices.Contains(states, text(app["state"]))
	})
	return encode(status, out)
}

func (c *Cloud) startJobRun(in *call, a *application) (int, []byte, *Refusal) {
	c.mu.Lock()
	state := a.state
	c.mu.Unlock()
	if state == "TERMINATED" || state == "STOPPING" {
		return 0, nil, bad("Application %s is %s. Cannot start job run.", a.id, strings.ToLower(state))
	}
	submit := object(object(in.body["jobDriver"])["sparkSubmit"])
	overrides := object(in.body["configurationOverrides"])
	monitoring := object(overrides["monitoringConfiguration"])
	r := &jobRun{state: "SUBMITTED", logs: text(object(monitoring["s3MonitoringConfiguration"])["logUri"]),
		made: time.Now()}
	properties := map[string]string{}
	for _, e := range list(overrides["applicationConfiguration"]) {
		if text(object(e)["classification"]) != "spark-defaults" {
			return 0, nil, bad("classification %v", object(e)["classification"])
		}
		for k, v := range object(object(e)["properties"]) {
			properties[k] = text(v)
			r.args = append(r.args, "--conf", k+"="+text(v))
		}
	}
	r.usage = sparkjob.Serverless("emr-serverless", properties)
	r.args = append(r.args, strings.Fields(text(submit["sparkSubmitParameters"]))...)
	r.args = append(append(r.args, text(submit["entryPoint"])), texts(submit["entryPointArguments"])...)
	status, out := c.ask(in, in.body)
	c.mu.Lock()
	defer c.mu.Unlock()
	if r.id = text(out["jobRunId"]); r.id != "" {
		r.hidden = c.lag
		a.runs = append(a.runs, r)
	}
	return encode(status, out)
}

// listJobRuns lists the job runs; moto has no list for an application without any.
func (c *Cloud) listJobRuns(in *call, a *application) (int, []byte, *Refusal) {
	c.mu.Lock()
	none := len(a.runs) == 0
	c.mu.Unlock()
	if none {
		return encode(http.StatusOK, map[string]any{"jobRuns": []any{}})
	}
	in.URL.RawQuery = ""
	status, out := c.ask(in, nil)
	c.mu.Lock()
	defer c.mu.Unlock()
	out["jobRuns"] = slices.DeleteFunc(list(out["jobRuns"]), func(e any) bool {
		a.patch(object(e), "id")
		for _, r := range a.runs {
			if r.id == text(object(e)["id"]) && r.hidden > 0 {
				r.hidden--
				return true
			}
		}
		return false
	})
	return encode(status, out)
}

func (a *application) patch(run map[string]any, id string) {
	for _, r := range a.runs {
		if r.id == text(run[id]) {
			run["state"], run["stateDetails"] = r.state, r.details
			if id != "jobRunId" { // lists have no times of the run
				continue
			}
			for name, at := range map[string]time.Time{"startedAt": r.usage.From, "endedAt": r.usage.Until} {
				if !at.IsZero() {
					run[name] = float64(at.UnixMilli()) / 1000
				}
			}
		}
	}
}

func (c *Cloud) cancelJobRun(in *call, a *application) (int, []byte, *Refusal) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range a.runs {
		if r.id != in.path[3] {
			continue
		}
		if r.ended() {
			return 0, nil, bad("Job run %s is in state %s and cannot be cancelled", r.id, r.state)
		}
		if r.stop != nil {
			r.stop()
		}
		r.state = "CANCELLED"
	}
	return encode(http.StatusOK, map[string]any{"applicationId": a.id, "jobRunId": in.path[3]})
}

// endApplication stops or deletes an application, which must have no job runs, or be stopped.
func (c *Cloud) endApplication(in *call, a *application) (int, []byte, *Refusal) {
	c.mu.Lock()
	running := slices.ContainsFunc(a.runs, func(r *jobRun) bool { return !r.ended() })
	state := a.state
	c.mu.Unlock()
	stop := in.action == "StopApplication"
	switch {
	case running:
		return 0, nil, bad("Application %s has running jobs", a.id)
	case !stop && state != "CREATED" && state != "STOPPED":
		return 0, nil, bad("Application %s must be in one of the following statuses [CREATED, STOPPED]. "+
			"Current status: %s", a.id, state)
	}
	if !stop { // moto starts each application when it creates it
		before := *in
		before.Request = in.Clone(in.Context())
		before.Method, before.URL.Path = http.MethodPost, in.URL.Path+"/stop"
		c.ask(&before, nil)
	}
	status, out := c.ask(in, nil)
	c.mu.Lock()
	defer c.mu.Unlock()
	if a.state = "TERMINATED"; stop {
		a.state = "STOPPED"
	}
	return encode(status, out)
}
