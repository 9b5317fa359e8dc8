package setup_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/tradewind-broker/tradewind/internal/cloud/gcp/setup"
)

const sparkAccount = "test-spark@demo.iam.gserviceaccount.com"

func forSpark(c *setup.Config) { c.Spark = true }

// missing returns the problems that the check of a setup reports, each with its command.
func (w *world) missing() (all []string) {
	w.Helper()
	for _, l := range w.setup().Missing(w.Context()) {
		if l.Fatal {
			w.Errorf("machines can still be bought: %+v", l)
		}
		all = append(all, l.What+": "+l.Mend)
	}
	return all
}

func TestSparkSetupGrantsMinimalRights(t *testing.T) {
	w := newWorld(t, forSpark)
	s := w.setup()
	made, all := w.add(s)
	if len(made) != all || all != len(s.Print()) {
		t.Errorf("%d of %d made: %v", len(made), all, made)
	}
	if s.SparkAccount() != sparkAccount {
		t.Errorf("the account is %s", s.SparkAccount())
	}
	const buyer = "user:a@example.com"
	for _, b := range [][3]string{
		{"projects/demo", "roles/dataproc.worker", "serviceAccount:" + sparkAccount},
		{"projects/demo", "projects/demo/roles/tradewind_test_spark", buyer},
		{"projects/demo/serviceAccounts/" + sparkAccount, "roles/iam.serviceAccountUser", buyer},
	} {
		if !w.gce.HasRole(b[0], b[1], b[2], false) {
			t.Errorf("%s does not have %s on %s", b[2], b[1], b[0])
		}
	}
	if made, _ := w.add(w.setup()); len(made) > 0 {
		t.Errorf("the second time made %v", made)
	}
	if got := w.missing(); len(got) > 0 {
		t.Errorf("missing %v", got)
	}
	left := []string{}
	if err := w.setup().Remove(t.Context(), func(c setup.Change) {
		if c.Stays != "" {
			left = append(left, c.Step)
		}
	}); err != nil {
		t.Fatal(err)
	}
	for what, there := range w.gce.Created() {
		if there && !strings.HasPrefix(what, "service ") {
			t.Errorf("left: %s", what)
		}
	}
	if !slices.Contains(left, "service dataproc.googleapis.com") {
		t.Errorf("reports only %v as left", left)
	}
	if w.gce.HasRole("projects/demo", "roles/dataproc.worker", "serviceAccount:"+sparkAccount, false) {
		t.Error("the removed account keeps its role")
	}
}

// Without a buyer, only the account of Dataproc's machines is created. If the user names an account, none is created.
func TestSparkSetupWithoutBuyerOrWithNamedAccount(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*setup.Config)
		want   []string
	}{
		"no buyer": {func(c *setup.Config) { c.Spark, c.Member = true, "" }, []string{
			"service account " + sparkAccount, "roles/dataproc.worker for serviceAccount:" + sparkAccount}},
		"named": {func(c *setup.Config) {
			c.Spark, c.Member, c.SparkAccount = true, "", "mine@demo.iam.gserviceaccount.com"
		}, nil},
		"stored": {func(c *setup.Config) { c.Spark, c.Member, c.SparkAccount = true, "", sparkAccount }, []string{
			"service account " + sparkAccount, "roles/dataproc.worker for serviceAccount:" + sparkAccount}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, c.change)
			made, _ := w.add(w.setup())
			made = slices.DeleteFunc(made, func(s string) bool {
				return strings.HasPrefix(s, "service ") && strings.HasSuffix(s, ".googleapis.com")
			})
			if !slices.Equal(made, c.want) {
				t.Errorf("made %q, want %q", made, c.want)
			}
		})
	}
}

func TestSparkCheckNamesWhatIsMissing(t *testing.T) {
	w := newWorld(t, func(c *setup.Config) { c.Spark, c.Member = true, "" })
	w.gce.Disable("cloudresourcemanager.googleapis.com", false)
	got := strings.Join(w.missing(), "\n")
	for _, want := range []string{
		"service dataproc.googleapis.com is missing: gcloud services enable dataproc.googleapis.com --project demo",
		"service account " + sparkAccount + " is missing: gcloud iam service-accounts create test-spark",
		"roles/dataproc.worker for serviceAccount:" + sparkAccount + " is missing: gcloud projects add-iam-policy-binding demo --member 'serviceAccount:" +
			sparkAccount + "' --role roles/dataproc.worker",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
}
