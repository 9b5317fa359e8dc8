package lambdacloud

import (
	"crypto/subtle"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
)

// answer is an answer: data, a failure, or no answer at all.
type answer struct {
	data    any
	failure *Failure
	cut     bool
}

// ServeHTTP implements http.Handler.
func (c *Cloud) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	pattern := c.api.path(r.Method, r.URL.Path)
	if pattern == "" {
		c.cfg.Fault(fmt.Errorf("%s %s is not described", r.Method, r.URL.Path))
		http.NotFound(w, r)
		return
	}
	a := c.serve(r, pattern)
	if a.cut {
		panic(http.ErrAbortHandler)
	}
	status, body := http.StatusOK, map[string]any{"data": a.data}
	if f := a.failure; f != nil {
		said := map[string]any{"code": f.Code, "message": f.Message}
		if f.Suggestion != "" {
			said["suggestion"] = f.Suggestion
		}
		status, body = f.Status, map[string]any{"error": said}
		if f.RetryAfter > 0 {
			w.Header().Set("Retry-After", strconv.Itoa(int((f.RetryAfter+time.Second-1)/time.Second)))
		}
	}
	text, err := json.Marshal(body)
	if err == nil {
		err = c.api.answer(r.Method, pattern, status, text)
	}
	if err != nil {
		c.cfg.Fault(fmt.Errorf("answer of %s %s: %w", r.Method, pattern, err))
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(text)
}

func failed(f Failure) answer { return answer{failure: &f} }

func known(code string) answer { return failed(FailureOf(code)) }

// serve handles a request and returns the answer.
func (c *Cloud) serve(r *http.Request, pattern string) answer {
	var body map[string]any
	var raw []byte
	if r.Method == http.MethodPost {
		var err error
		if raw, err = decode(r.Body, &body); err != nil {
			return known(codeParameters)
		}
		if err := c.api.request(r.Method, pattern, raw); err != nil {
			c.cfg.Fault(fmt.Errorf("body of %s %s: %w", r.Method, pattern, err))
			return known(codeParameters)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	token, bearer := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	switch {
	case c.bad.down:
		return answer{cut: true}
	case !bearer || c.bad.revoked || subtle.ConstantTimeCompare([]byte(token), []byte(c.cfg.Key)) == 0:
		return known(codeKey)
	case c.bad.account == codeInactive:
		return known(codeInactive)
	case c.bad.throttle > 0:
		c.bad.throttle--
		return known(codeLimited)
	}
	switch r.Method + " " + strings.TrimPrefix(pattern, "/api/v1") {
	case "GET /instance-types":
		return c.listTypes()
	case "GET /instances":
		return c.listInstances()
	case "GET /instances/{id}":
		if i := c.instances[path.Base(r.URL.Path)]; i != nil {
			return answer{data: c.describe(i)}
		}
		return known(codeNoObject)
	case "POST /instance-operations/launch":
		return c.launch(raw)
	case "POST /instance-operations/terminate":
		return c.terminate(raw)
	case "GET /ssh-keys":
		list := []any{}
		for _, name := range slices.Sorted(maps.Keys(c.keys)) {
			list = append(list, sshKey(name, c.keys[name]))
		}
		return answer{data: list}
	case "POST /ssh-keys":
		return c.addKey(raw)
	case "DELETE /ssh-keys/{id}":
		maps.DeleteFunc(c.keys, func(name, _ string) bool { return "id-"+name == path.Base(r.URL.Path) })
		return answer{data: map[string]any{}}
	}
	c.cfg.Fault(fmt.Errorf("%s %s is not simulated", r.Method, pattern))
	return known(codeProvider)
}

func sshKey(name, public string) map[string]any {
	return map[string]any{"id": "id-" + name, "name": name, "public_key": public}
}

func (c *Cloud) addKey(raw []byte) answer {
	var in struct {
		Name   string `json:"name"`
		Public string `json:"public_key"`
	}
	if json.Unmarshal(raw, &in) != nil || in.Public == "" || c.keys[in.Name] != "" {
		return known(codeParameters)
	}
	c.keys[in.Name] = in.Public
	return answer{data: sshKey(in.Name, in.Public)}
}

func (c *Cloud) listTypes() answer {
	out := map[string]any{}
	for name, t := range c.types {
		regions := []any{}
		for _, r := range t.Regions {
			if !c.outOfStock(name, r) {
				regions = append(regions, place(r))
			}
		}
		out[name] = map[string]any{"instance_type": t.describe(), "regions_with_capacity_available": regions}
	}
	return answer{data: out}
}

func (t Type) describe() map[string]any {
	gpu := t.GPU
	if gpu == "" {
		gpu = "N/A"
	}
	return map[string]any{
		"name": t.Name, "description": t.Description, "gpu_description": gpu, "price_cents_per_hour": t.Cents,
		"specs": map[string]any{"vcpus": t.VCPU, "memory_gib": t.MemoryGiB, "storage_gib": t.StorageGiB,
			"gpus": t.GPUs},
	}
}

func place(region string) map[string]any {
	return map[string]any{"name": region, "description": "Region " + region}
}

// listsOfEnded is the number of lists that still contain a terminated machine.
const listsOfEnded = 2

func (c *Cloud) listInstances() answer {
	c.calls["listInstances"]++
	out := []any{}
	for _, id := range slices.Sorted(maps.Keys(c.instances)) {
		i := c.instances[id]
		if i.hidden > 0 {
			i.hidden--
			continue
		}
		if !i.living() {
			if i.seen++; i.seen > listsOfEnded {
				continue
			}
		}
		out = append(out, c.describe(i))
	}
	return answer{data: out}
}

func (c *Cloud) describe(i *instance) map[string]any {
	yes := map[string]any{"available": true}
	out := map[string]any{
		"id": i.id, "name": i.name, "status": i.status, "ssh_key_names": []any{i.sshKey}, "file_system_names": []any{},
		"region": place(i.region), "instance_type": i.kind.describe(), "hostname": i.host,
		"actions": map[string]any{"migrate": yes, "rebuild": yes, "restart": yes, "cold_reboot": yes, "terminate": yes},
		"tags":    append([]tag{}, i.tags...),
	}
	if i.status != booting {
		out["ip"], out["private_ip"] = "198.51.100.2", "10.0.2.100"
	}
	return out
}

func (c *Cloud) launch(raw []byte) answer {
	c.calls["launchInstance"]++
	var in struct {
		Region   string   `json:"region_name"`
		Type     string   `json:"instance_type_name"`
		SSHKeys  []string `json:"ssh_key_names"`
		Name     string   `json:"name"`
		Hostname string   `json:"hostname"`
		UserData string   `json:"user_data"`
		Tags     []tag    `json:"tags"`
	}
	if json.Unmarshal(raw, &in) != nil {
		return known(codeParameters)
	}
	kind, sold := c.types[in.Type]
	switch f, bad := c.launchFailure(); {
	case bad:
		return failed(f)
	case c.bad.account != "":
		return known(c.bad.account)
	case len(in.SSHKeys) != 1:
		return known(codeParameters)
	case c.keys[in.SSHKeys[0]] == "" || !sold:
		f := FailureOf(codeNoObject)
		f.Message = "SSH key or instance type does not exist."
		return failed(f)
	case !slices.Contains(kind.Regions, in.Region) || c.outOfStock(in.Type, in.Region):
		return known(codeCapacity)
	case c.bad.quota > 0 && c.count() >= c.bad.quota:
		return known(codeQuota)
	}
	i := &instance{
		id: newID(), name: in.Name, host: in.Hostname, sshKey: in.SSHKeys[0], kind: kind, region: in.Region,
		status: booting, tags: in.Tags, userData: in.UserData, launched: c.cfg.Now(), hidden: c.bad.lag,
	}
	c.instances[i.id] = i
	c.boot(i)
	if c.bad.lost > 0 {
		c.bad.lost--
		return answer{cut: true}
	}
	return answer{data: map[string]any{"instance_ids": []string{i.id}}}
}

func (c *Cloud) count() (n int) {
	for _, i := range c.instances {
		if i.living() {
			n++
		}
	}
	return n
}

// terminate ends all named machines, or none if one of them does not exist.
func (c *Cloud) terminate(raw []byte) answer {
	c.calls["terminateInstance"]++
	var in struct {
		IDs []string `json:"instance_ids"`
	}
	if json.Unmarshal(raw, &in) != nil {
		return known(codeParameters)
	}
	for _, id := range in.IDs {
		if i := c.instances[id]; i == nil || i.status == terminated {
			return known(codeNoObject)
		}
	}
	out := []any{}
	for _, id := range in.IDs {
		i := c.instances[id]
		c.end(i, terminating)
		out = append(out, c.describe(i))
	}
	return answer{data: map[string]any{"terminated_instances": out}}
}
