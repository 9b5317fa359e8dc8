package stack

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// managed configures managed services of AWS, and creates the files of their functions.
func managed(tb testing.TB, services ...string) func(*Config) {
	return func(c *Config) {
		c.Services = services
		binaries(tb, c)
	}
}

// The function with the drivers of AWS's services may make clusters and applications only with the deployment's tag, and
// change and end only those with it. It may give them only the stack's roles, and read only the logs of applications.
func TestServiceFunctionHasMinimalRights(t *testing.T) {
	d := synthesise(t, managed(t, "emr", "emr-serverless"))["tradewind"]
	lists := []string{"elasticmapreduce:ListClusters", "emr-serverless:ListApplications"}
	runs := []string{"emr-serverless:GetJobRun", "emr-serverless:CancelJobRun"}
	seen := map[string]bool{}
	for _, s := range d.statements() {
		if s.role != "tradewind-cloud-aws" {
			continue
		}
		for _, a := range s.actions {
			seen[a] = true
			service, _, _ := strings.Cut(a, ":")
			tagged := strings.Contains(fmt.Sprint(s.condition), "Tag/tradewind:deployment:[tradewind]")
			switch {
			case service == "logs", slices.Contains(lists, a):
			case service == "elasticmapreduce", service == "emr-serverless":
				if !tagged && !slices.Contains(runs, a) {
					t.Errorf("%s of anyone's: %v", a, s.condition)
				}
			case service == "dynamodb":
				if !strings.Contains(fmt.Sprint(s.condition), "grave#aws#*") {
					t.Errorf("%s of %v", a, s.condition)
				}
			case a == "iam:PassRole":
				if len(s.resources) != 1 || !strings.Contains(s.resources[0], ":role/tradewind-") || s.condition == nil {
					t.Errorf("it may pass %v if %v", s.resources, s.condition)
				}
			case a == "iam:CreateServiceLinkedRole":
				if !strings.Contains(fmt.Sprint(s.resources), "role/aws-service-role/") {
					t.Errorf("it may create %v", s.resources)
				}
			case a == "s3:GetObject":
				if !strings.HasSuffix(s.resources[0], "/*/service-logs/*") {
					t.Errorf("it may read %v", s.resources)
				}
			case a == "s3:ListBucket":
			default:
				t.Errorf("it may %s", a)
			}
		}
	}
	for _, a := range append(lists, append(runs, "elasticmapreduce:RunJobFlow", "elasticmapreduce:AddTags",
		"elasticmapreduce:AddJobFlowSteps", "elasticmapreduce:CancelSteps", "elasticmapreduce:DescribeCluster",
		"elasticmapreduce:ListSteps", "elasticmapreduce:TerminateJobFlows", "emr-serverless:CreateApplication",
		"emr-serverless:StartJobRun", "emr-serverless:ListJobRuns", "emr-serverless:GetApplication",
		"emr-serverless:StopApplication", "emr-serverless:DeleteApplication", "iam:PassRole")...) {
		if !seen[a] {
			t.Errorf("it may not %s, which its drivers call", a)
		}
	}
}

// The function that watches services is invoked each minute while work is open, calls the functions of clouds, and may
// write only the records, logs and files that it writes in place of agents.
func TestServicesAreWatchedWhileWorkIsOpen(t *testing.T) {
	d := synthesise(t, managed(t, "emr"))["tradewind"]
	_, s := d.named(t, "AWS::Scheduler::Schedule", "Name", "services")
	if s.Properties["State"] != "DISABLED" || s.Properties["ScheduleExpression"] != "rate(1 minute)" ||
		!strings.HasSuffix(fmt.Sprint(s.at("Target", "Arn")), "function:tradewind-services") {
		t.Errorf("%v", s.Properties)
	}
	_, submit := d.named(t, "AWS::Lambda::Function", "FunctionName", "tradewind-submit")
	for name, want := range map[string]string{
		"TRADEWIND_SERVICES": "emr", "TRADEWIND_SCHEDULES": "tick,reconcile,services",
	} {
		if got := submit.at("Environment", "Variables", name); got != want {
			t.Errorf("%s is %v", name, got)
		}
	}
	callers := map[string]bool{}
	for _, s := range d.statements() {
		if slices.Contains(s.actions, "lambda:InvokeFunction") && strings.Contains(fmt.Sprint(s.resources), "CloudAws") {
			callers[s.role] = true
		}
		if s.role != "tradewind-services" {
			continue
		}
		for _, r := range s.resources {
			if slices.Contains(s.actions, "s3:PutObject") && !strings.HasSuffix(r, "/logs/*") &&
				!strings.HasSuffix(r, "/events/*") && !strings.HasSuffix(r, "/*/service-code/*") {
				t.Errorf("it may write %s", r)
			}
		}
		if keys := fmt.Sprint(s.condition); slices.Contains(s.actions, "dynamodb:PutItem") &&
			(!strings.Contains(keys, "job#*") || strings.Contains(keys, "grave") || strings.Contains(keys, "market")) {
			t.Errorf("it may write the records %s", keys)
		}
	}
	if len(callers) != 4 || !callers["tradewind-services"] || !callers["tradewind-provision"] ||
		!callers["tradewind-reconcile"] || !callers["tradewind-refresh"] {
		t.Errorf("the function with the drivers is called by %v", callers)
	}
}

// EMR's applications work with the buckets of jobs, but not with the broker's own objects in the work bucket.
func TestApplicationsDoNotReachBrokersObjects(t *testing.T) {
	d := synthesise(t, managed(t, "emr", "emr-serverless"))["tradewind"]
	for _, role := range []string{"emr-nodes", "spark"} {
		denied := ""
		for _, s := range d.statements() {
			if s.role == "tradewind-"+role && s.effect == "Deny" && slices.Contains(s.actions, "s3:GetObject") {
				denied = fmt.Sprint(s.resources)
			}
		}
		for _, prefix := range []string{"agent", "events", "logs", "catalog", "policy", "packs"} {
			if !strings.Contains(denied, "/"+prefix+"/*") {
				t.Errorf("%s reaches %s/: it is denied %v", role, prefix, denied)
			}
		}
	}
	if _, p := d.named(t, "AWS::IAM::InstanceProfile", "InstanceProfileName", "tradewind-emr-nodes-${AWS::Region}"); p.Type == "" {
		t.Error("EMR's machines have no instance profile")
	}
}

// A deployment that buys only Dataproc has the watcher, but neither AWS's drivers nor its roles.
func TestDataprocIsBoughtByFunctionOfGoogleCloud(t *testing.T) {
	d := synthesise(t, clouds(t, map[string]string{
		"gcp": "project=acme,regions=us-central1,serviceAccount=m@acme,stores=us-central1:acme-work,impersonate=b@acme,services=dataproc+dataproc-serverless,sparkAccount=s@acme",
	}))["tradewind"]
	_, f := d.named(t, "AWS::Lambda::Function", "FunctionName", "tradewind-services")
	if got := f.at("Environment", "Variables", "TRADEWIND_SERVICES"); got != "dataproc,dataproc-serverless" {
		t.Errorf("it watches %v", got)
	}
	for _, f := range d.of("AWS::Lambda::Function") {
		if f.Properties["FunctionName"] == "tradewind-cloud-aws" {
			t.Error("it has the drivers of AWS's services")
		}
	}
	writes := false
	for _, s := range d.statements() {
		writes = writes || s.role == "tradewind-services" && slices.Contains(s.actions, "lambda:InvokeFunction") &&
			strings.Contains(fmt.Sprint(s.resources), "CloudGcp")
	}
	if !writes {
		t.Error("the watcher may not call the function of Google Cloud")
	}
}

func TestValidateRejectsInvalidServices(t *testing.T) {
	for _, services := range [][]string{{"dataproc"}, {"emr", "emr"}, {""}} {
		c := Default()
		c.Services = services
		if err := c.Validate(); err == nil || !strings.HasPrefix(err.Error(), "-services") {
			t.Errorf("%v: %v", services, err)
		}
	}
	c := Default()
	c.Clouds = map[string]string{"gcp": "project=p,regions=r,serviceAccount=m@p,services=dataproc,sparkAccount=s@p"}
	if err := c.Validate(); err == nil || !strings.Contains(err.Error(), "needs stores=") {
		t.Errorf("Dataproc without a bucket: %v", err)
	}
}
