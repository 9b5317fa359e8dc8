package deploy

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path"
	"strings"
)

// dataNames are the properties with the names of the resources that contain data, by type.
var dataNames = map[string]string{"AWS::DynamoDB::Table": "TableName", "AWS::S3::Bucket": "BucketName"}

// named returns a stack whose template names tables and buckets literally. The template of infra/ names buckets with
// Fn::Sub, because it may be synthesised in another environment. CloudFormation imports resources that an earlier
// deployment left behind only if their names are literal (CloudFormation User Guide, "Import AWS resources into a
// CloudFormation stack automatically").
func (t *Target) named(s Stack) (Stack, error) {
	raw, err := os.ReadFile(s.Template.Path)
	if err != nil {
		return s, fmt.Errorf("%w: %w", ErrAssembly, err)
	}
	var template map[string]any
	numbers := json.NewDecoder(bytes.NewReader(raw))
	numbers.UseNumber()
	if err := numbers.Decode(&template); err != nil {
		return s, fmt.Errorf("%w: %s: %w", ErrAssembly, s.Template.Path, err)
	}
	resources, _ := template["Resources"].(map[string]any)
	changed := false
	for _, r := range resources {
		resource, _ := r.(map[string]any)
		typ, _ := resource["Type"].(string)
		properties, _ := resource["Properties"].(map[string]any)
		function, _ := properties[dataNames[typ]].(map[string]any)
		text, ok := function["Fn::Sub"].(string)
		if !ok {
			continue
		}
		name := t.resolve(text)
		if strings.Contains(name, "${") {
			return s, fmt.Errorf("%w: the name %s of a bucket or table depends on more than account and region",
				ErrAssembly, text)
		}
		properties[dataNames[typ]], changed = name, true
	}
	if !changed {
		return s, nil
	}
	var body bytes.Buffer
	out := json.NewEncoder(&body)
	out.SetEscapeHTML(false)
	if err := out.Encode(template); err != nil {
		return s, err
	}
	sum := sha256.Sum256(body.Bytes())
	s.Template.body = body.Bytes()
	s.Template.Key = path.Join(path.Dir(s.Template.Key), hex.EncodeToString(sum[:])+".json")
	return s, nil
}
