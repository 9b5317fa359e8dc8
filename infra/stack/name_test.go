package stack

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

func TestDeploymentsWithDifferentNamesShareNothing(t *testing.T) {
	one, other := deployed()(t), synthesise(t, func(c *Config) {
		c.Name, c.KeepData, c.Alarms, c.Architecture, c.DataBuckets = "second", false, false, "x86_64", []string{"imagenet-mini"}
		c.Account, c.Region, c.Regions = "111122223333", "us-east-1", []string{"eu-west-1"}
	})
	names := func(d template) []string {
		var out []string
		for _, r := range d.Resources {
			for _, p := range []string{"FunctionName", "QueueName", "TableName", "BucketName", "RoleName", "TopicName", "LogGroupName", "InstanceProfileName", "DashboardName"} {
				if n, ok := r.Properties[p].(string); ok && !strings.HasPrefix(n, "<") { // a reference to another resource
					out = append(out, r.Type+" "+n)
				}
			}
		}
		return out
	}
	for _, n := range names(other["second"]) {
		if slices.Contains(names(one), n) {
			t.Errorf("two deployments share %s", n)
		}
	}
	if _, table := other["second"].named(t, "AWS::DynamoDB::Table", "TableName", "second"); table.DeletionPolicy != "Delete" {
		t.Errorf("the table outlives the stack: %s", table.DeletionPolicy)
	}
	if n := len(other["second"].of("AWS::CloudWatch::Alarm")); n > 0 {
		t.Errorf("%d alarms", n)
	}
	far, ok := other["second-notices-eu-west-1"]
	if !ok || len(far.of("AWS::Events::Rule")) != 2 {
		t.Errorf("no rule forwards the notices of eu-west-1: %v", slices.Collect(maps.Keys(other)))
	}
	checkFarRules(t, far)
	// Outputs of tasks in another region stay there. The API may access them, and provision may abort uploads; submit may check
	// whether they exist; reconcile removes those of expired jobs.
	const store = "second-work-111122223333-eu-west-1"
	if _, b := far.named(t, "AWS::S3::Bucket", "BucketName", store); b.Properties["PublicAccessBlockConfiguration"] == nil {
		t.Error("the bucket of eu-west-1 may be public")
	}
	reached := map[string]bool{}
	for _, s := range other["second"].statements() {
		if slices.ContainsFunc(s.resources, func(r string) bool { return strings.Contains(r, store) }) {
			reached[s.role] = true
			if s.role == "second-submit" && !slices.Equal(s.actions, []string{"s3:ListBucket"}) {
				t.Errorf("submit may do %v in %s", s.actions, store)
			}
		}
	}
	if want := map[string]bool{"second-api": true, "second-provision": true, "second-reconcile": true, "second-submit": true}; !maps.Equal(reached, want) {
		t.Errorf("%s is reached by %v", store, reached)
	}
	for name, f := range other["second"].of("AWS::Lambda::Function") {
		if got := f.at("Environment", "Variables", "TRADEWIND_STORES"); got != "eu-west-1="+store {
			t.Errorf("%s knows of the stores %v", name, got)
		}
	}
	found := false
	for _, s := range other["second"].statements() {
		found = found || s.role == "second-api" && slices.Contains(s.actions, "s3:GetObject") && slices.ContainsFunc(s.resources, func(r string) bool { return strings.HasSuffix(r, ":s3:::imagenet-mini/*") })
	}
	if !found {
		t.Error("the API cannot grant reading the data bucket")
	}
}

// checkFarRules checks that a region forwards all notices, but of the state changes of all machines in the account only
// their ends: an account that starts many other machines would pay for each event and invoke the function with it.
func checkFarRules(t *testing.T, far template) {
	t.Helper()
	states := map[string][]string{}
	for _, r := range far.of("AWS::Events::Rule") {
		for _, typ := range words(r.at("EventPattern", "detail-type")) {
			states[typ] = words(r.at("EventPattern", "detail", "state"))
		}
	}
	if len(states) != len(ec2Notices()) || len(states[ec2Warning]) > 0 || len(states[ec2Rebalance]) > 0 ||
		!slices.Equal(states[ec2State], []string{"shutting-down", "stopping"}) {
		t.Errorf("eu-west-1 forwards %v", states)
	}
}

// Names of IAM roles and of CloudWatch dashboards are unique in an account, not in a region (IAM API reference,
// CreateRole; CloudWatch API reference, PutDashboard). A stack in a second region fails if they are the same there.
// Buckets are global; their names may depend on account and region only, so that a deployment can name them literally.
func TestNamesThatAreGlobalContainRegion(t *testing.T) {
	d := deployed()(t)
	for id, r := range d.Resources {
		for typ, property := range map[string]string{
			"AWS::IAM::Role": "RoleName", "AWS::CloudWatch::Dashboard": "DashboardName", "AWS::S3::Bucket": "BucketName",
			"AWS::IAM::ManagedPolicy": "ManagedPolicyName",
		} {
			name, named := r.Properties[property].(string)
			if r.Type == typ && named && !strings.Contains(name, "${AWS::Region}") && !strings.Contains(name, "<AWS::Region>") {
				t.Errorf("%s %s is named %s in every region", typ, id, name)
			}
		}
		if name, ok := r.Properties["BucketName"].(string); ok {
			rest := strings.NewReplacer("${AWS::AccountId}", "", "${AWS::Region}", "").Replace(name)
			if r.Type == "AWS::S3::Bucket" && strings.ContainsAny(rest, "$<") {
				t.Errorf("bucket %s is named %s", id, name)
			}
		}
	}
}
