package deploy_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
)

// The template must name its buckets without a function, because only then CloudFormation adopts the buckets of an
// earlier deployment (CloudFormation User Guide, "Import AWS resources into a CloudFormation stack automatically",
// requirements; the API's model describes it at CreateChangeSet, ImportExistingResources). The emulator cannot test
// this: it adopts any bucket.
func TestTemplateNamesDataLiterally(t *testing.T) {
	r := newRig(t, "deploy-n")
	r.Template(template("deploy-n", "one"))
	if _, err := r.deploy(); err != nil {
		t.Fatal(err)
	}
	client := s3.NewFromConfig(r.cfg, func(o *s3.Options) { o.UsePathStyle = true })
	assets := "tradewind-assets-" + r.target.Account + "-" + r.target.Region
	list, err := client.ListObjectsV2(t.Context(), &s3.ListObjectsV2Input{Bucket: &assets})
	if err != nil {
		t.Fatal(err)
	}
	found := false
	for _, o := range list.Contents {
		if !strings.HasSuffix(aws.ToString(o.Key), ".json") {
			continue
		}
		out, err := client.GetObject(t.Context(), &s3.GetObjectInput{Bucket: &assets, Key: o.Key})
		if err != nil {
			t.Fatal(err)
		}
		var uploaded struct {
			Resources map[string]struct {
				Type       string
				Properties map[string]any
			}
		}
		if err := json.NewDecoder(out.Body).Decode(&uploaded); err != nil {
			t.Fatal(err)
		}
		for id, resource := range uploaded.Resources {
			if want := r.target.WorkBucket("deploy-n"); id == "Work" && strings.Contains(aws.ToString(o.Key), "lambda/") {
				if got := resource.Properties["BucketName"]; got == want {
					found = true
				} else if m, ok := got.(map[string]any); ok && strings.HasPrefix(m["Fn::Sub"].(string), "deploy-n-") {
					t.Errorf("the bucket is named %v, want the literal %s", got, want)
				}
			}
		}
	}
	if !found {
		t.Error("no uploaded template names the work bucket literally")
	}
	if set, err := r.target.Diff(t.Context(), r.stack()); err != nil || len(set.Changes) > 0 {
		t.Errorf("the same template differs: %v, %v", changes(set), err)
	}
}
