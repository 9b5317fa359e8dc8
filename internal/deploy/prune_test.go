package deploy_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
)

func (r *rig) keys(bucket string) (keys []string) {
	r.Helper()
	client := s3.NewFromConfig(r.cfg, func(o *s3.Options) { o.UsePathStyle = true })
	out, err := client.ListObjectsV2(r.Context(), &s3.ListObjectsV2Input{Bucket: &bucket})
	if err != nil {
		r.Fatal(err)
	}
	for _, o := range out.Contents {
		keys = append(keys, aws.ToString(o.Key))
	}
	return keys
}

func (r *rig) putObject(bucket, key string) {
	r.Helper()
	client := s3.NewFromConfig(r.cfg, func(o *s3.Options) { o.UsePathStyle = true })
	if _, err := client.PutObject(r.Context(), &s3.PutObjectInput{Bucket: &bucket, Key: &key, Body: strings.NewReader("x")}); err != nil {
		r.Fatal(err)
	}
}

// A deployment must remove old versions of functions and agents that no template names. Earlier programs kept them in
// the buckets for ever.
func TestDeployRemovesOldBinariesThatNoTemplateNames(t *testing.T) {
	r := newRig(t, "deploy-e")
	assets := "tradewind-assets-" + r.target.Account + "-" + r.target.Region
	work := r.target.WorkBucket("deploy-e")
	named := strings.Replace(template("deploy-e", "one"), `"deploy-e-one"`, `"deploy-e-one","Tags":[{"Key":"k","Value":"lambda/code.zip agent/now/a"}]`, 1)
	r.Template(named)
	if _, err := r.deploy(); err != nil {
		t.Fatal(err)
	}
	r.putObject(assets, "lambda/old.zip")
	for _, key := range []string{"agent/now/a", "agent/last/a", "agent/old/a", "job/task/output"} {
		r.putObject(work, key)
	}
	before := `{"Resources":{"F":{"Agent":"amd64=agent/last/a"}}}`
	if err := r.target.Prune(t.Context(), "deploy-e", before, time.Now()); err != nil {
		t.Fatal(err)
	}
	if got := r.keys(assets); !slices.Contains(got, "lambda/old.zip") {
		t.Errorf("young binaries are removed: %v", got)
	}
	if err := r.target.Prune(t.Context(), "deploy-e", before, time.Now().Add(31*24*time.Hour)); err != nil {
		t.Fatal(err)
	}
	if got := r.keys(assets); !slices.Equal(got, []string{"lambda/code.zip"}) {
		t.Errorf("in the asset bucket stay %v", got)
	}
	if got := r.keys(work); !slices.Equal(got, []string{"agent/last/a", "agent/now/a", "job/task/output"}) {
		t.Errorf("in the work bucket stay %v", got)
	}
}
