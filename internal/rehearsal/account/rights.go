package account

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"
)

// Rights checks the deployed roles of the functions like IAM: is an action allowed on the resource of the request?
// Of conditions only that on the leading keys of table items is evaluated, and resources only if the request names one
// directly (tables, buckets, queues, parameters, topics, buses).
type Rights struct {
	functions map[string]string // by access key
	allowed   map[string][]grant

	mu     sync.Mutex
	used   map[string]map[string]bool // by function
	denied map[string]int
}

type grant struct {
	actions, resources []string
	leading            []string // patterns of the partitions; nil for all
}

// rights returns the rights in the roles of a template's functions.
func (t *Template) rights() *Rights {
	policies := t.Of("AWS::IAM::Policy")
	maps.Copy(policies, t.Of("AWS::IAM::ManagedPolicy")) // of roles whose inline policy is full
	r := &Rights{functions: map[string]string{}, allowed: map[string][]grant{}, used: map[string]map[string]bool{},
		denied: map[string]int{}}
	for _, f := range t.Of("AWS::Lambda::Function") {
		name := f.Text("FunctionName")
		r.functions[functionKey(name)] = name
		role := path.Base(f.Text("Role"))
		for _, p := range policies {
			if roles, _ := p.at("Roles").([]any); !slices.Contains(roles, any(role)) {
				continue
			}
			statements, _ := p.at("PolicyDocument", "Statement").([]any)
			for _, s := range statements {
				m := s.(map[string]any)
				if m["Effect"] == "Allow" {
					g := grant{actions: words(m["Action"]), resources: words(m["Resource"])}
					if c, ok := m["Condition"].(map[string]any); ok {
						keys, _ := c["ForAllValues:StringLike"].(map[string]any)
						g.leading = words(keys["dynamodb:LeadingKeys"])
					}
					r.allowed[name] = append(r.allowed[name], g)
				}
			}
		}
	}
	return r
}

func words(v any) []string {
	switch v := v.(type) {
	case string:
		return []string{v}
	case []any:
		out := make([]string, len(v))
		for i, w := range v {
			out[i] = fmt.Sprint(w)
		}
		return out
	}
	return nil
}

// Function returns the function with an access key, or an empty string.
func (r *Rights) Function(key string) string { return r.functions[key] }

// Missing returns the first right that a request needs and the function's role lacks, or an empty string.
func (r *Rights) Missing(function, service, action string, req *http.Request, body []byte) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, a := range needed(service, action, body) {
		if r.used[function] == nil {
			r.used[function] = map[string]bool{}
		}
		r.used[function][a] = true
		resource := resourceOf(service, req, body)
		keys := []string{""}
		if service == "dynamodb" {
			keys = append(keys, leadingKeys(a, action, body)...)
		}
		for _, key := range keys {
			if !slices.ContainsFunc(r.allowed[function], func(g grant) bool { return g.allows(a, resource, key) }) {
				lacks := strings.TrimSpace(a + " of " + resource + " " + key)
				r.denied[function+": "+lacks]++
				return lacks
			}
		}
	}
	return ""
}

func (g grant) allows(action, resource, key string) bool {
	if !slices.Contains(g.actions, action) {
		return false
	}
	if g.leading != nil && key != "" && !slices.ContainsFunc(g.leading, func(p string) bool { return like(p, key) }) {
		return false
	}
	return resource == "" || slices.ContainsFunc(g.resources, func(pattern string) bool {
		return like(pattern, resource)
	})
}

// like matches a string with a pattern in which * matches anything.
func like(pattern, s string) bool {
	parts := strings.Split(pattern, "*")
	if len(parts) == 1 {
		return pattern == s
	}
	if !strings.HasPrefix(s, parts[0]) {
		return false
	}
	s = s[len(parts[0]):]
	for _, p := range parts[1 : len(parts)-1] {
		i := strings.Index(s, p)
		if i < 0 {
			return false
		}
		s = s[i+len(p):]
	}
	return strings.HasSuffix(s, parts[len(parts)-1])
}

// leadingKeys returns the partition keys of a request's items, for the operations to which a right applies.
func leadingKeys(right, action string, body []byte) (keys []string) {
	type item map[string]struct{ S string }
	type op struct{ Item, Key item }
	add := func(o op) {
		if pk := o.Item["pk"].S + o.Key["pk"].S; pk != "" {
			keys = append(keys, pk)
		}
	}
	var in struct {
		op
		TransactItems []map[string]op
		RequestItems  map[string]json.RawMessage
	}
	_ = json.Unmarshal(body, &in) // the table rejects an invalid body
	add(in.op)
	for _, item := range in.TransactItems {
		for name, o := range item {
			if strings.HasPrefix(strings.TrimPrefix(right, "dynamodb:"), name) {
				add(o)
			}
		}
	}
	if action != "BatchWriteItem" {
		return keys
	}
	for _, of := range in.RequestItems {
		var writes []struct{ PutRequest, DeleteRequest op }
		_ = json.Unmarshal(of, &writes)
		for _, w := range writes {
			add(w.PutRequest)
			add(w.DeleteRequest)
		}
	}
	return keys
}

// iamPrefix maps service names in signatures to IAM's prefixes where they differ.
var iamPrefix = map[string]string{"events": "events", "monitoring": "cloudwatch"}

// needed returns the rights that a request needs; for batches and transactions, those of their contents.
func needed(service, action string, body []byte) []string {
	prefix := service
	if p, ok := iamPrefix[service]; ok {
		prefix = p
	}
	if prefix == "sts" && action == "GetCallerIdentity" {
		return nil // "No permissions are required to perform this operation" (STS API reference)
	}
	switch action {
	case "SendMessageBatch", "DeleteMessageBatch", "ChangeMessageVisibilityBatch":
		return []string{prefix + ":" + strings.TrimSuffix(action, "Batch")}
	case "TransactWriteItems", "TransactGetItems":
		var in struct{ TransactItems []map[string]any }
		_ = json.Unmarshal(body, &in) // the table rejects an invalid body
		var out []string
		for _, item := range in.TransactItems {
			for op := range item {
				a := map[string]string{
					"Put": "PutItem", "Update": "UpdateItem", "Delete": "DeleteItem",
					"ConditionCheck": "ConditionCheckItem", "Get": "GetItem",
				}[op]
				if a = prefix + ":" + a; !slices.Contains(out, a) {
					out = append(out, a)
				}
			}
		}
		return out
	}
	return []string{prefix + ":" + action}
}

// resourceOf returns the ARN of the resource of a request, or an empty string if it does not name one directly.
func resourceOf(service string, r *http.Request, body []byte) string {
	var in struct {
		TableName, QueueURL, QueueName, Name, TopicArn string
		QueueUrl                                       string //nolint:revive // as SQS spells it
	}
	if service != "s3" && service != "ec2" {
		_ = json.Unmarshal(body, &in)
	}
	arn := func(service, rest string) string {
		return "arn:aws:" + service + ":" + Region + ":" + account + ":" + rest
	}
	switch {
	case service == "dynamodb" && in.TableName != "":
		return arn("dynamodb", "table/"+in.TableName)
	case service == "sqs" && in.QueueName != "":
		return arn("sqs", in.QueueName)
	case service == "sqs" && in.QueueUrl != "":
		return arn("sqs", path.Base(in.QueueUrl))
	case service == "ssm" && in.Name != "" && !strings.HasPrefix(in.Name, "/aws/"):
		return arn("ssm", "parameter"+in.Name)
	case service == "lambda" && invoked(r) != "":
		return arn("lambda", "function:"+invoked(r))
	case service == "s3":
		return "arn:aws:s3:::" + strings.Trim(r.URL.Path, "/")
	}
	return ""
}

// Denied returns the rights that functions lacked, with the number of denials.
func (r *Rights) Denied() map[string]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := map[string]int{}
	for k, n := range r.denied {
		out[k] = n
	}
	return out
}
