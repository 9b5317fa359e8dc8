package roles_test

import (
	"slices"
	"strings"
	"testing"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/iam"

	"github.com/tradewind-broker/tradewind/internal/cloud/aws/roles"
	"github.com/tradewind-broker/tradewind/internal/emulator"
)

// world is an account, and the roles of a deployment in it.
type world struct {
	*testing.T
	sdk awssdk.Config
	iam *iam.Client
	cfg roles.Config
}

func newWorld(t *testing.T) *world {
	t.Helper()
	sdk := emulator.Config(emulator.OwnMoto(t))
	return &world{T: t, sdk: sdk, iam: iam.NewFromConfig(sdk), cfg: roles.Config{
		Deployment: "tw", EMR: true, Serverless: true, Regions: []string{"us-east-1"}, Buckets: []string{"data"},
	}}
}

func (w *world) roles() *roles.Roles { return roles.New(w.sdk, w.cfg) }

// add runs Add, and returns the steps that changed something and those that did not.
func (w *world) add() (made, was []string) {
	w.Helper()
	if err := w.roles().Add(w.Context(), func(step string, m bool) {
		if m {
			made = append(made, step)
		} else {
			was = append(was, step)
		}
	}); err != nil {
		w.Fatal(err)
	}
	return made, was
}

// names returns the names of the account's roles and instance profiles.
func (w *world) names() (all []string) {
	w.Helper()
	out, err := w.iam.ListRoles(w.Context(), &iam.ListRolesInput{})
	if err != nil {
		w.Fatal(err)
	}
	for _, r := range out.Roles {
		all = append(all, *r.RoleName)
	}
	profiles, err := w.iam.ListInstanceProfiles(w.Context(), &iam.ListInstanceProfilesInput{})
	if err != nil {
		w.Fatal(err)
	}
	for _, p := range profiles.InstanceProfiles {
		all = append(all, "profile "+*p.InstanceProfileName)
	}
	slices.Sort(all)
	return all
}

// missing returns the missing roles and rights, each with the command that adds it.
func (w *world) missing() (all []string) {
	w.Helper()
	for _, l := range w.roles().Missing(w.Context(), "add") {
		if l.Fatal {
			w.Errorf("machines can still be bought: %+v", l)
		}
		all = append(all, l.What+": "+l.Mend)
	}
	return all
}

func (w *world) expect(what string, got []string, want ...string) {
	w.Helper()
	if !slices.Equal(got, want) {
		w.Errorf("%s: %q, want %q", what, got, want)
	}
}

func TestAddIsIdempotentAndRemoveLeavesNothing(t *testing.T) {
	w := newWorld(t)
	steps := []string{"role tw-emr", "rights of role tw-emr", "role tw-emr-nodes", "rights of role tw-emr-nodes",
		"instance profile tw-emr-nodes", "role tw-spark", "rights of role tw-spark"}
	made, was := w.add()
	w.expect("made first", made, steps...)
	w.expect("was there first", was)
	w.expect("in the account", w.names(), "profile tw-emr-nodes", "tw-emr", "tw-emr-nodes", "tw-spark")
	made, was = w.add()
	w.expect("made again", made)
	w.expect("was there", was, steps...)
	w.expect("missing", w.missing())
	w.cfg.Serverless = false // the settings now name fewer services
	var removed []string
	if err := w.roles().Remove(t.Context(), func(step string) { removed = append(removed, step) }); err != nil {
		t.Fatal(err)
	}
	slices.Reverse(removed)
	w.expect("removed", removed, steps...)
	w.expect("left", w.names())
	if err := w.roles().Remove(t.Context(), func(step string) { t.Errorf("removed %s again", step) }); err != nil {
		t.Fatal(err)
	}
}

func TestSettingsNameCreatedRoles(t *testing.T) {
	w := newWorld(t)
	r := w.roles()
	if err := r.Add(t.Context(), func(string, bool) {}); err != nil {
		t.Fatal(err)
	}
	w.cfg.ServiceRole, w.cfg.InstanceProfile, w.cfg.JobRole = r.Settings()
	w.expect("settings", []string{w.cfg.ServiceRole, w.cfg.InstanceProfile, w.cfg.JobRole}, "tw-emr", "tw-emr-nodes",
		"arn:aws:iam::123456789012:role/tw-spark")
	made, _ := w.add()
	w.expect("made with the stored settings", made)
	if _, err := w.iam.DeleteRolePolicy(t.Context(), &iam.DeleteRolePolicyInput{RoleName: awssdk.String("tw-spark"),
		PolicyName: awssdk.String("tradewind")}); err != nil {
		t.Fatal(err)
	}
	w.expect("missing", w.missing(), "rights of role tw-spark is missing or out of date: add")
}

// Spark applications may use the buckets in the settings and no others. If a bucket is added later, the rights must
// include it.
func TestApplicationsMayUseOnlyTheirBuckets(t *testing.T) {
	w := newWorld(t)
	w.add()
	w.cfg.Buckets = append(w.cfg.Buckets, "more")
	w.expect("out of date", w.missing(), "rights of role tw-emr-nodes is missing or out of date: add",
		"rights of role tw-spark is missing or out of date: add")
	made, _ := w.add()
	w.expect("made", made, "rights of role tw-emr-nodes", "rights of role tw-spark")
	for _, line := range w.roles().Print() {
		if strings.Contains(line, "s3:") && (!strings.Contains(line, `"arn:aws:s3:::data/*","arn:aws:s3:::more/*"]`) || strings.Contains(line, `"*"`)) {
			t.Errorf("rights %s", line)
		}
	}
}

// EMR may end only the deployment's machines, buy only in the deployment's regions, and give machines only the
// deployment's role.
func TestServiceRoleHasLeastPrivilege(t *testing.T) {
	w := newWorld(t)
	w.add()
	out, err := w.iam.GetRolePolicy(t.Context(), &iam.GetRolePolicyInput{RoleName: awssdk.String("tw-emr"),
		PolicyName: awssdk.String("tradewind")})
	if err != nil {
		t.Fatal(err)
	}
	allowed := func(action, resource string) (conditions []string) {
		for _, s := range statements(t, awssdk.ToString(out.PolicyDocument)) {
			if slices.Contains(s.Action, action) && slices.ContainsFunc(s.Resource, func(r string) bool {
				return r == "*" || r == resource
			}) {
				conditions = append(conditions, string(s.Condition))
			}
		}
		return conditions
	}
	const mine = `{"StringEquals":{"aws:%sTag/tradewind:deployment":"tw"}}`
	const instances, groups = "arn:aws:ec2:us-east-1:*:instance/*", "arn:aws:ec2:us-east-1:*:security-group/*"
	w.expect("ends machines", allowed("ec2:TerminateInstances", instances), strings.ReplaceAll(mine, "%s", "Resource"))
	w.expect("buys machines", allowed("ec2:RunInstances", instances), strings.ReplaceAll(mine, "%s", "Request"))
	w.expect("buys elsewhere", allowed("ec2:RunInstances", "arn:aws:ec2:eu-west-1:*:instance/*"))
	w.expect("uses networks", allowed("ec2:RunInstances", groups), "")
	w.expect("deletes networks", allowed("ec2:DeleteSecurityGroup", groups))
	w.expect("passes its role", allowed("iam:PassRole", "arn:aws:iam::123456789012:role/tw-emr-nodes"),
		`{"StringLike":{"iam:PassedToService":"ec2.amazonaws.com*"}}`)
	w.expect("passes others", allowed("iam:PassRole", "arn:aws:iam::123456789012:role/admin"))
}

// A user has named existing roles. They must be neither created nor removed, and the check must report those that do
// not exist.
func TestNamedRolesAreOnlyChecked(t *testing.T) {
	w := newWorld(t)
	w.cfg.ServiceRole, w.cfg.InstanceProfile = "EMR_DefaultRole", "EMR_EC2_DefaultRole"
	w.cfg.JobRole = "arn:aws:iam::123456789012:role/mine"
	made, was := w.add()
	w.expect("made", made)
	w.expect("was", was)
	w.expect("in the account", w.names())
	w.expect("printed", w.roles().Print())
	w.expect("missing", w.missing(), "role EMR_DefaultRole does not exist: aws emr create-default-roles",
		"instance profile EMR_EC2_DefaultRole does not exist: aws emr create-default-roles",
		"role mine does not exist: create it, or run `tradewind cloud add aws` without its flag, which creates one")
	if _, err := w.iam.CreateRole(t.Context(), &iam.CreateRoleInput{RoleName: awssdk.String("mine"),
		AssumeRolePolicyDocument: awssdk.String("{}")}); err != nil {
		t.Fatal(err)
	}
	if err := w.roles().Remove(t.Context(), func(step string) { t.Errorf("removed %s", step) }); err != nil {
		t.Fatal(err)
	}
	w.expect("left", w.names(), "mine")
}

// Print must make no calls. The printed commands must create the same roles as Add.
func TestPrintListsCommands(t *testing.T) {
	w := newWorld(t)
	lines := w.roles().Print()
	var verbs []string
	for _, l := range lines {
		verbs = append(verbs, strings.Fields(l)[2])
	}
	w.expect("commands", verbs, "create-role", "put-role-policy", "create-role", "put-role-policy",
		"create-instance-profile", "add-role-to-instance-profile", "create-role", "put-role-policy")
}
