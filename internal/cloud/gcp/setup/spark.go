package setup

import (
	"cmp"
	"context"
	"fmt"

	"github.com/tradewind-broker/tradewind/internal/cloud/driver"
	"github.com/tradewind-broker/tradewind/internal/cloud/gcp"
)

// sparkWorker is the role that Dataproc's machines and batches need (Dataproc documentation, "Dataproc service
// accounts"). It includes reading and writing the project's buckets.
const sparkWorker = "roles/dataproc.worker"

// SparkAccount returns the address of the service account of Dataproc's machines and batches.
func (s *Setup) SparkAccount() string {
	return cmp.Or(s.cfg.SparkAccount, s.address(s.cfg.Deployment+"-spark"))
}

// sparkPermissions are the permissions that the drivers of Dataproc use (Dataproc documentation, "Dataproc permissions
// and IAM roles").
func sparkPermissions() []string {
	return []string{
		"dataproc.batches.cancel", "dataproc.batches.create", "dataproc.batches.delete", "dataproc.batches.get",
		"dataproc.batches.list", "dataproc.clusters.create", "dataproc.clusters.delete", "dataproc.clusters.get",
		"dataproc.clusters.list", "dataproc.clusters.use", "dataproc.jobs.cancel", "dataproc.jobs.create",
		"dataproc.jobs.get", "dataproc.operations.cancel", "dataproc.operations.get",
	}
}

// sparkSteps returns the steps for Dataproc: its API, the account of its machines with its role, and the buyer's
// right to use both.
func (s *Setup) sparkSteps() []step {
	var all []step
	for _, name := range []string{projectsService, "iam.googleapis.com", "dataproc.googleapis.com"} {
		all = append(all, s.service(name))
	}
	if s.cfg.SparkAccount == "" {
		all = append(all, s.account(s.cfg.Deployment+"-spark", "Runs Spark for "+s.cfg.Deployment),
			s.projectBinding(sparkWorker, "serviceAccount:"+s.SparkAccount()))
	}
	if s.cfg.Member == "" {
		return all
	}
	role := s.role() + "_spark"
	return append(all, s.customRole(role, sparkPermissions()), s.projectBinding(role, s.member()),
		s.accountBinding(s.SparkAccount(), "roles/iam.serviceAccountUser", s.member()))
}

// Missing returns the resources that do not exist, with the command that creates each.
func (s *Setup) Missing(ctx context.Context) (missing []driver.Lack) {
	if err := s.open(ctx); err != nil {
		return []driver.Lack{{What: fmt.Sprintf("whether the roles of services exist is not known: %v", err)}}
	}
	for _, st := range s.steps(false) {
		there, err := st.look(ctx)
		switch {
		case err != nil:
			missing = append(missing, driver.Lack{
				What: fmt.Sprintf("whether there is %s is not known: %v", st.name, gcp.Typed(err)),
			})
		case !there:
			missing = append(missing, driver.Lack{What: st.name + " is missing", Mend: st.command})
		}
	}
	return missing
}
