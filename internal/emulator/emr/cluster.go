package emr

import (
	"context"
	"slices"
	"time"

	"github.com/tradewind-broker/tradewind/internal/emulator/sparkjob"
)

// reason is the reason for which a cluster ended: EMR's code, the code in the details, and the message.
type reason struct{ code, detail, message string }

type cluster struct {
	id, name, logs string
	state          string
	age            int     // in requests
	why            reason  // set when it is ending
	fails          *reason // ends it when it would be ready
	steps          []*step
	usage          sparkjob.Usage
}

type step struct {
	id, state, message string
	args               []string
	stop               context.CancelFunc
}

func (k *cluster) ended() bool { return k.state == "TERMINATED" || k.state == "TERMINATED_WITH_ERRORS" }

// terminate begins the end of a cluster.
func (k *cluster) terminate(why reason) {
	if k.ended() || k.state == "TERMINATING" {
		return
	}
	k.state, k.why, k.usage.Until = "TERMINATING", why, time.Now()
	for _, s := range k.steps {
		switch s.state {
		case "PENDING":
			s.state = "CANCELLED"
		case "RUNNING":
			s.state = "INTERRUPTED"
			s.stop()
		}
	}
}

// step advances the time of a cluster.
func (c *Cloud) step(k *cluster) {
	if k.age++; k.age == c.slow && k.fails != nil {
		k.terminate(*k.fails)
		return
	}
	switch k.state {
	case "STARTING":
		if k.age >= c.slow-1 {
			k.state = "BOOTSTRAPPING"
		}
	case "BOOTSTRAPPING":
		if k.age >= c.slow && time.Since(k.usage.From) >= c.boots[0] {
			k.state = "WAITING"
		}
	case "TERMINATING":
		k.state = "TERMINATED"
		if k.why.code != "USER_REQUEST" {
			k.state = "TERMINATED_WITH_ERRORS"
		}
	case "WAITING", "RUNNING":
		c.next(k)
	}
}

// next starts the first pending step if none is running.
func (c *Cloud) next(k *cluster) {
	k.state = "WAITING"
	for _, s := range k.steps {
		switch s.state {
		case "RUNNING":
			k.state = "RUNNING"
			return
		case "PENDING":
			s.state, k.state = "RUNNING", "RUNNING"
			s.stop = c.start(s.args, k.logs+k.id+"/steps/"+s.id+"/", func(r sparkjob.Result) {
				switch {
				case s.state != "RUNNING":
				case r.Err != nil:
					s.state, s.message = "FAILED", r.Err.Error()
				default:
					s.state = "COMPLETED"
				}
			})
			return
		}
	}
}

// elastic handles a request to EMR.
func (c *Cloud) elastic(in *call) (int, []byte, *Refusal) {
	switch in.action {
	case "RunJobFlow":
		return c.runJobFlow(in)
	case "AddJobFlowSteps":
		return c.addSteps(in)
	case "CancelSteps":
		return c.cancelSteps(in)
	case "TerminateJobFlows":
		return c.terminateJobFlows(in)
	case "ListClusters", "ListSteps":
		return c.list(in)
	}
	status, out := c.ask(in, in.body)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.patch(out)
	return encode(status, out)
}

func (c *Cloud) runJobFlow(in *call) (int, []byte, *Refusal) {
	isSpark := func(a any) bool { return text(object(a)["Name"]) == "Spark" }
	if !slices.ContainsFunc(list(in.body["Applications"]), isSpark) {
		return 0, nil, bad("the cluster has no Spark")
	}
	status, out := c.ask(in, in.body)
	c.mu.Lock()
	defer c.mu.Unlock()
	if id := text(out["JobFlowId"]); id != "" {
		k := &cluster{id: id, name: text(in.body["Name"]), logs: text(in.body["LogUri"]), state: "STARTING"}
		k.usage = sparkjob.Usage{Service: "emr", From: time.Now()}
		for _, g := range list(object(in.body["Instances"])["InstanceGroups"]) {
			n, _ := object(g)["InstanceCount"].(float64)
			k.usage.Machines += int(n)
			k.usage.InstanceType = text(object(g)["InstanceType"])
		}
		if len(c.late) > 0 {
			k.fails, c.late = &c.late[0], c.late[1:]
		}
		c.clusters[id] = k
		c.order = append(c.order, k)
	}
	return encode(status, out)
}

func (c *Cloud) addSteps(in *call) (int, []byte, *Refusal) {
	c.mu.Lock()
	k := c.clusters[text(in.body["JobFlowId"])]
	gone := k == nil || k.ended() || k.state == "TERMINATING"
	c.mu.Unlock()
	if gone {
		return 0, nil, bad("A job flow that is shutting down, terminated, or finished may not be modified.")
	}
	var steps []*step
	for _, s := range list(in.body["Steps"]) {
		jar := object(object(s)["HadoopJarStep"])
		args := texts(jar["Args"])
		if text(jar["Jar"]) != "command-runner.jar" || len(args) == 0 || args[0] != "spark-submit" {
			return 0, nil, bad("this emulator runs only spark-submit, not %v %v", jar["Jar"], args)
		}
		steps = append(steps, &step{state: "PENDING", args: args[1:]})
	}
	status, out := c.ask(in, in.body)
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, id := range texts(out["StepIds"]) {
		steps[i].id = id
		k.steps = append(k.steps, steps[i])
	}
	return encode(status, out)
}

func (c *Cloud) cancelSteps(in *call) (int, []byte, *Refusal) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := c.clusters[text(in.body["ClusterId"])]
	if k == nil {
		return 0, nil, bad("Cluster id '%v' is not valid.", in.body["ClusterId"])
	}
	var infos []any
	for _, id := range texts(in.body["StepIds"]) {
		status := "FAILED"
		for _, s := range k.steps {
			if s.id == id && (s.state == "PENDING" || s.state == "RUNNING") {
				if status = "SUBMITTED"; s.stop != nil {
					s.stop()
				}
				s.state = "CANCELLED"
			}
		}
		infos = append(infos, map[string]any{"StepId": id, "Status": status})
	}
	return encode(200, map[string]any{"CancelStepsInfoList": infos})
}

func (c *Cloud) terminateJobFlows(in *call) (int, []byte, *Refusal) {
	status, out := c.ask(in, in.body)
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, id := range texts(in.body["JobFlowIds"]) {
		if k := c.clusters[id]; k != nil {
			k.terminate(reason{"USER_REQUEST", "", "Terminated by user request"})
		}
	}
	return encode(status, out)
}

// list forwards a request for a list without its states, which moto does not know, and selects by them.
func (c *Cloud) list(in *call) (int, []byte, *Refusal) {
	of, filter := "Clusters", "ClusterStates"
	if in.action == "ListSteps" {
		of, filter = "Steps", "StepStates"
	}
	states := texts(in.body[filter])
	body := map[string]any{}
	for k, v := range in.body {
		if k != filter {
			body[k] = v
		}
	}
	status, out := c.ask(in, body)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.patch(out)
	if len(states) > 0 {
		out[of] = slices.DeleteFunc(list(out[of]), func(e any) bool {
			return !slices.Contains(states, text(object(object(e)["Status"])["State"]))
		})
	}
	return encode(status, out)
}

// patch replaces the states of clusters and steps in an answer of moto.
func (c *Cloud) patch(v any) {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			c.patch(e)
		}
	case map[string]any:
		if status := object(v["Status"]); status != nil {
			c.patchStatus(text(v["Id"]), status)
		}
		for _, e := range v {
			c.patch(e)
		}
	}
}

func (c *Cloud) patchStatus(id string, status map[string]any) {
	if k := c.clusters[id]; k != nil {
		status["State"] = k.state
		status["StateChangeReason"] = map[string]any{"Code": k.why.code, "Message": k.why.message}
		if k.why.detail != "" {
			status["ErrorDetails"] = []any{map[string]any{"ErrorCode": k.why.detail, "ErrorMessage": k.why.message}}
		}
	}
	for _, k := range c.order {
		for _, s := range k.steps {
			if s.id == id {
				status["State"] = s.state
				if s.message != "" {
					status["FailureDetails"] = map[string]any{"Reason": "Unknown Error.", "Message": s.message}
				}
			}
		}
	}
}
