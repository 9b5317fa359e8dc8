package account

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tradewind-broker/tradewind/internal/deploy"
)

// Account and region of the emulator.
const (
	account = "123456789012"
	Region  = "us-east-1"
)

// Template is a synthesised template with its references resolved for the emulator's account.
type Template struct {
	Name      string
	Resources map[string]Resource
	raw       map[string]any
	stream    string // ARN of the table's stream, once it is deployed
}

// Resource is a resource of a template.
type Resource struct {
	Type       string
	Properties map[string]any
}

// setAside reports whether the rehearsal implements a type of resource itself: moto's CloudFormation does not know it,
// would run it in Docker, or would create it in the wrong emulator, like the table.
func setAside(typ string) bool {
	return typ == tableType || typ == "AWS::Lambda::EventSourceMapping" || typ == "AWS::Lambda::EventInvokeConfig" ||
		strings.HasPrefix(typ, "AWS::ApiGatewayV2::") || strings.HasPrefix(typ, "AWS::Scheduler::")
}

// readTemplate reads the template of a stack.
func readTemplate(s deploy.Stack) (*Template, error) {
	t := &Template{Name: s.Name, Resources: map[string]Resource{}}
	raw, err := os.ReadFile(s.Template.Path)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(raw, &t.raw); err != nil {
		return nil, fmt.Errorf("rehearsal: %s: %w", s.Template.Path, err)
	}
	return t, nil
}

// writeFor writes the template for the emulator, without the types that setAside matches, into dir, and returns the
// stack with it.
func (t *Template) writeFor(s deploy.Stack, dir string) (deploy.Stack, error) {
	var first, rest []string
	for id, r := range t.rawResources() {
		switch typ := r["Type"].(string); {
		case setAside(typ):
		case byName(typ):
			first = append(first, id)
		default:
			rest = append(rest, id)
		}
	}
	slices.Sort(rest)
	var out bytes.Buffer
	out.WriteString(`{"Resources":{`)
	for i, id := range append(first, rest...) {
		resource := t.without(any(t.rawResources()[id]))
		if t.rawResources()[id]["Type"] == "AWS::Events::Rule" {
			t.shadow(resource)
		}
		body, err := json.Marshal(resource)
		if err != nil {
			return s, err
		}
		if i > 0 {
			out.WriteByte(',')
		}
		fmt.Fprintf(&out, "%q:%s", id, body)
	}
	out.WriteString("}}")
	s.Template.Path = filepath.Join(dir, s.Name+".template.json")
	return s, os.WriteFile(s.Template.Path, out.Bytes(), 0o600)
}

// byName reports whether references to a type are replaced by names for the emulator: in a change set, moto's
// references are objects. Such resources are created first.
func byName(typ string) bool { return typ == "AWS::Events::EventBus" }

// without resolves references to types that setAside matches, and leaves all others to the emulator.
func (t *Template) without(v any) any {
	switch v := v.(type) {
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = t.without(v[i])
		}
		return out
	case map[string]any: // a resource, or a value in one
		if id := referencedResource(v); id != "" {
			if typ, _ := t.rawResources()[id]["Type"].(string); setAside(typ) || byName(typ) && v["Ref"] != nil {
				return t.value(v)
			}
		}
		out := make(map[string]any, len(v))
		for k := range v {
			out[k] = t.without(v[k])
		}
		return out
	default:
		return v
	}
}

// referencedResource returns the resource that v references, or an empty string.
func referencedResource(v map[string]any) string {
	if len(v) != 1 {
		return ""
	}
	if id, ok := v["Ref"].(string); ok {
		return id
	}
	if list, ok := v["Fn::GetAtt"].([]any); ok && len(list) == 2 {
		id, _ := list[0].(string)
		return id
	}
	return ""
}

func (t *Template) rawResources() map[string]map[string]any {
	out := map[string]map[string]any{}
	all, _ := t.raw["Resources"].(map[string]any)
	for id, r := range all {
		if m, ok := r.(map[string]any); ok {
			out[id] = m
		}
	}
	return out
}

// resolve resolves all references. The stream's ARN is known only after the table was created.
func (t *Template) resolve(stream string) {
	t.stream = stream
	for id, r := range t.rawResources() {
		props, _ := t.value(r["Properties"]).(map[string]any)
		t.Resources[id] = Resource{Type: r["Type"].(string), Properties: props}
	}
}

// Of returns the resources of a type by logical ID.
func (t *Template) Of(typ string) map[string]Resource {
	out := map[string]Resource{}
	for id, r := range t.Resources {
		if r.Type == typ {
			out[id] = r
		}
	}
	return out
}

// at returns the property at a path of keys.
func (r Resource) at(path ...string) any {
	var v any = r.Properties
	for _, p := range path {
		m, ok := v.(map[string]any)
		if !ok {
			return nil
		}
		v = m[p]
	}
	return v
}

// Text returns a string property of the resource, or an empty string.
func (r Resource) Text(path ...string) string {
	s, _ := r.at(path...).(string)
	return s
}

func (r Resource) number(path ...string) int {
	f, _ := r.at(path...).(float64)
	return int(f)
}

// value evaluates the CloudFormation functions that the template uses.
func (t *Template) value(v any) any {
	switch v := v.(type) {
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = t.value(v[i])
		}
		return out
	case map[string]any:
		if len(v) == 1 {
			for name, arg := range v {
				if got, ok := t.function(name, arg); ok {
					return got
				}
			}
		}
		out := make(map[string]any, len(v))
		for k := range v {
			out[k] = t.value(v[k])
		}
		return out
	default:
		return v
	}
}

func (t *Template) function(name string, arg any) (any, bool) {
	switch name {
	case "Ref":
		return t.ref(arg.(string)), true
	case "Fn::GetAtt":
		list := arg.([]any)
		return t.attribute(list[0].(string), list[1].(string)), true
	case "Fn::Sub":
		s, _ := arg.(string)
		return strings.NewReplacer("${AWS::AccountId}", account, "${AWS::Region}", Region, "${AWS::Partition}",
			"aws").Replace(s), true
	case "Fn::Join":
		list := arg.([]any)
		var parts []string
		for _, p := range list[1].([]any) {
			parts = append(parts, fmt.Sprint(t.value(p)))
		}
		return strings.Join(parts, list[0].(string)), true
	}
	return nil, false
}

// nameOf maps a type to the property with the resource's name.
var nameOf = map[string]string{
	"AWS::Lambda::Function": "FunctionName", "AWS::SQS::Queue": "QueueName", "AWS::DynamoDB::Table": "TableName",
	"AWS::S3::Bucket": "BucketName", "AWS::IAM::Role": "RoleName", "AWS::SNS::Topic": "TopicName",
	"AWS::Events::EventBus": "Name", "AWS::Logs::LogGroup": "LogGroupName",
	"AWS::Scheduler::ScheduleGroup": "Name",
}

func (t *Template) ref(id string) any {
	switch id {
	case "AWS::AccountId":
		return account
	case "AWS::Region":
		return Region
	case "AWS::Partition":
		return "aws"
	case "AWS::URLSuffix":
		return "amazonaws.com"
	}
	r := t.rawResources()[id]
	typ, _ := r["Type"].(string)
	switch typ {
	case "AWS::SNS::Topic":
		return t.attribute(id, "Arn")
	case "AWS::SQS::Queue":
		return "https://sqs." + Region + ".amazonaws.com/" + account + "/" + t.name(id)
	}
	return t.name(id)
}

// name returns the name of a resource in the account: the one in the template, or else its logical ID.
func (t *Template) name(id string) string {
	r := t.rawResources()[id]
	typ, _ := r["Type"].(string)
	props, _ := r["Properties"].(map[string]any)
	if s, ok := t.value(props[nameOf[typ]]).(string); ok {
		return s
	}
	return id
}

// arnForms are the ARN formats by type of resource.
var arnForms = map[string]string{
	"AWS::Lambda::Function": "arn:aws:lambda:" + Region + ":" + account + ":function:%s",
	"AWS::SQS::Queue":       "arn:aws:sqs:" + Region + ":" + account + ":%s",
	"AWS::DynamoDB::Table":  "arn:aws:dynamodb:" + Region + ":" + account + ":table/%s",
	"AWS::S3::Bucket":       "arn:aws:s3:::%s",
	"AWS::IAM::Role":        "arn:aws:iam::" + account + ":role/%s",
	"AWS::SNS::Topic":       "arn:aws:sns:" + Region + ":" + account + ":%s",
	"AWS::Events::EventBus": "arn:aws:events:" + Region + ":" + account + ":event-bus/%s",
	"AWS::Logs::LogGroup":   "arn:aws:logs:" + Region + ":" + account + ":log-group:%s:*",
}

func (t *Template) attribute(id, name string) any {
	typ, _ := t.rawResources()[id]["Type"].(string)
	switch {
	case name == "StreamArn":
		return t.stream
	case name == "Arn" || strings.HasSuffix(name, "Arn"):
		if form := arnForms[typ]; form != "" {
			return fmt.Sprintf(form, t.name(id))
		}
	case typ == "AWS::ApiGatewayV2::Api":
		return "https://" + id + ".execute-api." + Region + ".amazonaws.com"
	}
	return t.name(id)
}
