package stack

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Mounts use a role that the API may assume, and submit for its check. The role may access only the named
// buckets, not the deployment's. Without named buckets there is no role.
func TestMountsRoleReachesOnlyNamedBuckets(t *testing.T) {
	if _, there := deployed()(t).roles()["tradewind-mounts"]; there {
		t.Error("there is a role with nothing to mount")
	}
	all := synthesise(t, func(c *Config) {
		c.DataBuckets, c.MakeBuckets = []string{"imagenet-mini"}, []string{"sky-out*"}
		for _, arch := range agentArchs() {
			if err := os.WriteFile(filepath.Join(c.Assets, "agent", arch, "rclone"), []byte(arch), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	})
	d := all["tradewind"]
	_, role := d.named(t, "AWS::IAM::Role", "RoleName", "tradewind-mounts-${AWS::Region}")
	who, err := json.Marshal(role.Properties["AssumeRolePolicyDocument"])
	if err != nil || strings.Count(string(who), "Principal") != 2 || !strings.Contains(string(who), "ApiRole") ||
		!strings.Contains(string(who), "SubmitRole") || strings.Contains(string(who), "Service") {
		t.Errorf("it is assumed by %s, %v", who, err)
	}
	assumed := []string{}
	for _, s := range d.statements() {
		if slices.Contains(s.actions, "sts:AssumeRole") {
			assumed = append(assumed, fmt.Sprint(s.role, " ", s.resources))
		}
		for _, r := range s.resources {
			named := strings.Contains(r, ":s3:::imagenet-mini") || strings.Contains(r, ":s3:::sky-out*")
			if s.role == "tradewind-mounts" && !named {
				t.Errorf("what is lent may %v of %s", s.actions, r)
			}
			for _, a := range []string{"s3:CreateBucket", "s3:DeleteBucket"} {
				if slices.Contains(s.actions, a) && !strings.Contains(r, ":s3:::sky-out*") {
					t.Errorf("%s may %s %s", s.role, a, r)
				}
			}
		}
	}
	slices.Sort(assumed)
	if len(assumed) != 2 || !strings.HasPrefix(assumed[0], "tradewind-api [<MountsRole") ||
		!strings.HasPrefix(assumed[1], "tradewind-submit [<MountsRole") {
		t.Errorf("roles are assumed by %v", assumed)
	}
	_, f := d.named(t, "AWS::Lambda::Function", "FunctionName", "tradewind-api")
	if arn := fmt.Sprint(f.at("Environment", "Variables", "TRADEWIND_MOUNTS_ROLE")); !strings.Contains(arn, "role/tradewind-mounts") {
		t.Errorf("the API lends of %s", arn)
	}
	if keys := fmt.Sprint(f.at("Environment", "Variables", "TRADEWIND_RCLONE_KEY")); strings.Count(keys, "/rclone") != 2 ||
		!strings.HasPrefix(keys, "amd64=agent/") {
		t.Errorf("rclone is at %s", keys)
	}
}

func TestValidateRejectsInvalidMakeBuckets(t *testing.T) {
	for name, fits := range map[string]bool{
		"*": false, "sk*": false, "sky*": false, "sky-*": true, "sky-out": true, "s3://sky": false, "sky-*-x": false, "Sky-out": false,
	} {
		cfg := Default()
		cfg.Assets, cfg.MakeBuckets = assets(t), []string{name}
		if err := cfg.Validate(); fits != (err == nil) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// roles returns the names of all roles.
func (t template) roles() map[string]bool {
	out := map[string]bool{}
	for _, r := range t.of("AWS::IAM::Role") {
		out[strings.TrimSuffix(fmt.Sprint(r.Properties["RoleName"]), "-${AWS::Region}")] = true
	}
	return out
}
