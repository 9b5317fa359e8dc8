package stack

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

const testKey = "arn:aws:kms:eu-west-1:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab"

// Sources: EBS User Guide, "Requirements for Amazon EBS encryption"; S3 User Guide, "Using server-side encryption with
// AWS KMS keys (SSE-KMS)", "Permissions"; AWS KMS Developer Guide, "kms:ViaService" and "kms:GrantIsForAWSResource".
func TestCustomerKeysAreUsedOnlyThroughServices(t *testing.T) {
	for _, s := range deployed()(t).statements() {
		if slices.ContainsFunc(s.actions, func(a string) bool { return strings.HasPrefix(a, "kms:") }) {
			t.Errorf("without keys %s may %v", s.role, s.actions)
		}
	}
	d := synthesise(t, func(c *Config) {
		c.KMSKeys, c.DataBuckets = []string{testKey}, []string{"imagenet-mini"}
		clouds(t, map[string]string{"lambda": "regions=us-east-1"})(c)
	})["tradewind"]
	got := map[string][]string{} // actions by role and service
	for _, s := range d.statements() {
		if !slices.ContainsFunc(s.actions, func(a string) bool { return strings.HasPrefix(a, "kms:") }) {
			continue
		}
		if !slices.Equal(s.resources, []string{testKey}) || s.effect != "Allow" {
			t.Errorf("%s may %v of %v", s.role, s.actions, s.resources)
		}
		like, _ := s.condition["StringLike"].(map[string]any)
		services := words(like["kms:ViaService"])
		if len(services) == 0 {
			t.Errorf("%s may %v directly", s.role, s.actions)
		}
		if slices.Contains(s.actions, "kms:CreateGrant") {
			only, _ := s.condition["Bool"].(map[string]any)
			if only["kms:GrantIsForAWSResource"] != "true" || len(s.actions) != 1 {
				t.Errorf("%s may grant to others: %v", s.role, s.condition)
			}
		}
		for _, role := range s.roles {
			for _, service := range services {
				name, _, _ := strings.Cut(service, ".")
				got[role+" "+name] = append(got[role+" "+name], s.actions...)
			}
		}
	}
	for who, needed := range map[string][]string{
		"tradewind-provision ec2": {"kms:CreateGrant", "kms:Decrypt", "kms:DescribeKey",
			"kms:GenerateDataKeyWithoutPlaintext", "kms:ReEncryptFrom", "kms:ReEncryptTo"},
		"tradewind-api s3": {"kms:Decrypt", "kms:GenerateDataKey"}, "tradewind-submit s3": {"kms:Decrypt", "kms:GenerateDataKey"},
		"tradewind-mounts s3": {"kms:Decrypt", "kms:GenerateDataKey"},
		"tradewind-api ssm":   {"kms:Decrypt"}, "tradewind-submit ssm": {"kms:Decrypt"}, "tradewind-cloud-lambda ssm": {"kms:Decrypt"},
		"tradewind-api secretsmanager": {"kms:Decrypt"}, "tradewind-submit secretsmanager": {"kms:Decrypt"},
		"tradewind-cloud-lambda secretsmanager": {"kms:Decrypt"},
	} {
		slices.Sort(got[who])
		if !slices.Equal(got[who], needed) {
			t.Errorf("%s may %v, needs %v", who, got[who], needed)
		}
		delete(got, who)
	}
	if len(got) > 0 {
		t.Errorf("others may use the keys: %v", got)
	}
}

func TestValidateRejectsInvalidKeys(t *testing.T) {
	for key, valid := range map[string]bool{
		testKey: true, strings.Replace(testKey, "/1234abcd", "/mrk-1234abcd", 1): true,
		strings.Replace(testKey, "arn:aws:", "arn:aws-cn:", 1): true,
		"alias/team": false, strings.Replace(testKey, "key/", "alias/", 1): false, "*": false,
		strings.Replace(testKey, "/1234abcd-12ab-34cd-56ef-1234567890ab", "/*", 1): false,
	} {
		cfg := Default()
		cfg.Assets, cfg.KMSKeys = assets(t), []string{key}
		if err := cfg.Validate(); (err == nil) != valid || err != nil && !strings.HasPrefix(err.Error(), "-kms-keys") {
			t.Errorf("%s: %v", key, fmt.Sprint(err))
		}
	}
}
