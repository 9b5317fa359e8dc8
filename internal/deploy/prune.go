package deploy

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation/types"
	"github.com/aws/aws-sdk-go-v2/service/s3"
)

// pruneAfter is the age from which binaries that no template names are removed. A machine fetches its agent while it
// boots, and CloudFormation the code of a function during a change.
const pruneAfter = 30 * 24 * time.Hour

// Template returns the template of a deployed stack, or ErrNoStack.
func (t *Target) Template(ctx context.Context, stack string) (string, error) {
	out, err := t.cfn.GetTemplate(ctx, &cloudformation.GetTemplateInput{StackName: &stack})
	if codeOf(err) == "ValidationError" && strings.Contains(err.Error(), "does not exist") {
		return "", fmt.Errorf("%w: %s", ErrNoStack, stack)
	}
	if err != nil {
		return "", fmt.Errorf("deploy: template of %s: %w", stack, err)
	}
	return aws.ToString(out.TemplateBody), nil
}

// Prune removes old binaries: from the account's asset bucket those that no Tradewind stack in the region names, and
// agents from the work bucket of a deployment. before is the template that the deployment had until now: machines that
// boot now still fetch its agents. Nothing that is younger than pruneAfter is removed.
func (t *Target) Prune(ctx context.Context, name, before string, now time.Time) error {
	all, err := t.templates(ctx)
	if err != nil {
		return err
	}
	used := func(key string) bool {
		if strings.Contains(before, key) {
			return true
		}
		for _, text := range all {
			if strings.Contains(text, key) {
				return true
			}
		}
		return false
	}
	old := now.Add(-pruneAfter)
	if err := t.prune(ctx, t.resolve(assetBucketName), "", old, used); err != nil {
		return err
	}
	return t.prune(ctx, t.WorkBucket(name), "agent/", old, used)
}

// assetBucketName is the bucket of binaries, as in infra/.
const assetBucketName = "tradewind-assets-${AWS::AccountId}-${AWS::Region}"

// templates returns the templates of all stacks of Tradewind deployments in the region.
func (t *Target) templates(ctx context.Context) (all []string, err error) {
	pages := cloudformation.NewDescribeStacksPaginator(t.cfn, &cloudformation.DescribeStacksInput{})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, fmt.Errorf("deploy: stacks in %s: %w", t.Region, err)
		}
		for _, s := range page.Stacks {
			if !ours(s) {
				continue
			}
			text, err := t.Template(ctx, aws.ToString(s.StackId))
			if err != nil {
				return nil, err
			}
			all = append(all, text)
		}
	}
	return all, nil
}

// ours reports whether a stack is of a Tradewind deployment.
func ours(s types.Stack) bool {
	for _, tag := range s.Tags {
		if aws.ToString(tag.Key) == tagDeployment {
			return s.StackStatus != types.StackStatusDeleteComplete &&
				s.StackStatus != types.StackStatusReviewInProgress
		}
	}
	return false
}

// prune removes the objects below a prefix that are older than old and not used.
func (t *Target) prune(ctx context.Context, bucket, prefix string, old time.Time, used func(key string) bool) error {
	pages := s3.NewListObjectsV2Paginator(t.s3,
		&s3.ListObjectsV2Input{Bucket: &bucket, Prefix: &prefix, ExpectedBucketOwner: &t.Account})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if statusOf(err) == 404 { // not made by this deployment
			return nil
		}
		if err != nil {
			return fmt.Errorf("deploy: s3://%s: %w", bucket, err)
		}
		for _, o := range page.Contents {
			key := aws.ToString(o.Key)
			if o.LastModified == nil || o.LastModified.After(old) || used(key) {
				continue
			}
			if _, err := t.s3.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: &bucket, Key: &key,
				ExpectedBucketOwner: &t.Account}); err != nil {
				return fmt.Errorf("deploy: s3://%s/%s: %w", bucket, key, err)
			}
			t.report(Step{What: "remove", Name: "old binary", Status: "done", Physical: "s3://" + bucket + "/" + key})
		}
	}
	return nil
}
