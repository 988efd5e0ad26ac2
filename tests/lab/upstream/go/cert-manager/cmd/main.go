// Command lab runs the controllers, the webhook and the CA injector of cert-manager, and its check of the API, by the name under
// which it is called. The commands of cert-manager are Go modules of their own, which the Go module proxy does not have. This one
// starts what they start for issuers with a CA, with the settings of the chart, without ACME, Vault and leader election: one pod
// of each runs in the lab.
package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	apiext "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	apireg "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	configwebhook "github.com/cert-manager/cert-manager/internal/apis/config/webhook"
	"github.com/cert-manager/cert-manager/internal/webhook"
	cmapi "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	"github.com/cert-manager/cert-manager/pkg/controller"
	"github.com/cert-manager/cert-manager/pkg/controller/cainjector"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificate-shim/ingresses"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/approver"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/ca"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/selfsigned"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/issuing"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/keymanager"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/readiness"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/requestmanager"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/revisionmanager"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/trigger"
	_ "github.com/cert-manager/cert-manager/pkg/controller/clusterissuers"
	_ "github.com/cert-manager/cert-manager/pkg/controller/issuers"
	_ "github.com/cert-manager/cert-manager/pkg/issuer/ca"
	_ "github.com/cert-manager/cert-manager/pkg/issuer/selfsigned"
	"github.com/cert-manager/cert-manager/pkg/util"
	"github.com/cert-manager/cert-manager/pkg/util/cmapichecker"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	log := klog.Background()
	ctrl.SetLogger(log)
	ctx = logr.NewContext(ctx, log)
	commands := map[string]func(context.Context, *pflag.FlagSet) error{
		"controller": runControllers, "webhook": runWebhook, "cainjector": runInjector, "startupapicheck": check,
	}
	name := filepath.Base(os.Args[0])
	command, found := commands[name]
	if !found {
		fmt.Fprintf(os.Stderr, "%s is not a command of cert-manager\n", name)
		os.Exit(2)
	}
	flags := pflag.NewFlagSet(name, pflag.ExitOnError)
	// Those that the chart gives and that change nothing here.
	flags.ParseErrorsAllowlist.UnknownFlags = true
	if err := command(ctx, flags); err != nil {
		log.Error(err, name+" failed")
		os.Exit(1)
	}
}

func runControllers(ctx context.Context, flags *pflag.FlagSet) error {
	options := controller.ContextOptions{
		IssuerOptions:      controller.IssuerOptions{ClusterIssuerAmbientCredentials: true},
		IngressShimOptions: controller.IngressShimOptions{DefaultIssuerKind: "Issuer", DefaultIssuerGroup: "cert-manager.io"},
		CertificateOptions: controller.CertificateOptions{
			CopiedAnnotationPrefixes:                 []string{"*", "-kubectl.kubernetes.io/", "-fluxcd.io/", "-argocd.argoproj.io/"},
			CertificateRequestMinimumBackoffDuration: time.Minute,
			CertificateRequestMaximumBackoffDuration: time.Hour,
		},
	}
	flags.StringVar(&options.ClusterResourceNamespace, "cluster-resource-namespace", "kube-system", "")
	if err := flags.Parse(os.Args[1:]); err != nil {
		return err
	}
	factory, err := controller.NewContextFactory(ctx, options)
	if err != nil {
		return err
	}
	shared, err := factory.Build()
	if err != nil {
		return err
	}
	failed := make(chan error, 1)
	for name, create := range controller.Known() {
		one, err := create(factory)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		go func() { failed <- one.Run(5, ctx) }()
	}
	shared.SharedInformerFactory.Start(ctx.Done())
	shared.KubeSharedInformerFactory.Start(ctx.Done())
	shared.HTTP01ResourceMetadataInformersFactory.Start(ctx.Done())
	go answer("0.0.0.0:9403")
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
		return nil
	}
}

// answer says to probes that the process lives.
func answer(address string) {
	_ = http.ListenAndServe(address, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
}

func runWebhook(ctx context.Context, flags *pflag.FlagSet) error {
	var options configwebhook.WebhookConfiguration
	flags.Int32Var(&options.SecurePort, "secure-port", 10250, "")
	dynamic := &options.TLSConfig.Dynamic
	flags.StringVar(&dynamic.SecretNamespace, "dynamic-serving-ca-secret-namespace", "", "")
	flags.StringVar(&dynamic.SecretName, "dynamic-serving-ca-secret-name", "", "")
	flags.StringSliceVar(&dynamic.DNSNames, "dynamic-serving-dns-names", nil, "")
	if err := flags.Parse(os.Args[1:]); err != nil {
		return err
	}
	options.HealthzPort = 6080
	dynamic.LeafDuration = 7 * 24 * time.Hour
	options.MetricsListenAddress = "0.0.0.0:9402"
	server, err := webhook.NewCertManagerWebhookServer(klog.FromContext(ctx), options)
	if err != nil {
		return err
	}
	return server.Run(ctx)
}

func runInjector(ctx context.Context, flags *pflag.FlagSet) error {
	if err := flags.Parse(os.Args[1:]); err != nil {
		return err
	}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{kscheme.AddToScheme, cmapi.AddToScheme, apiext.AddToScheme, apireg.AddToScheme} {
		if err := add(scheme); err != nil {
			return err
		}
	}
	config, err := rest.InClusterConfig()
	if err != nil {
		return err
	}
	manager, err := ctrl.NewManager(util.RestConfigWithUserAgent(config, "cainjector"), ctrl.Options{
		Scheme:  scheme,
		Metrics: metricsserver.Options{BindAddress: "0"},
		// Only the metadata of Secrets is watched.
		Client: client.Options{Cache: &client.CacheOptions{DisableFor: []client.Object{&corev1.Secret{}}}},
	})
	if err != nil {
		return err
	}
	options := cainjector.SetupOptions{EnableCertificatesDataSource: true, EnabledReconcilersFor: map[string]bool{
		cainjector.MutatingWebhookConfigurationName: true, cainjector.ValidatingWebhookConfigurationName: true,
		cainjector.APIServiceName: true, cainjector.CustomResourceDefinitionName: true,
	}}
	if err := cainjector.RegisterAllInjectors(ctx, manager, options); err != nil {
		return err
	}
	return manager.Start(ctx)
}

func check(ctx context.Context, flags *pflag.FlagSet) error {
	wait := flags.Duration("wait", 0, "")
	if err := flags.Parse(slices.Clone(os.Args[1:])); err != nil {
		return err
	}
	config, err := rest.InClusterConfig()
	if err != nil {
		return err
	}
	checker, err := cmapichecker.New(config, os.Getenv("POD_NAMESPACE"))
	if err != nil {
		return err
	}
	for end := time.Now().Add(*wait); ; time.Sleep(2 * time.Second) {
		if err = checker.Check(ctx); err == nil || time.Now().After(end) {
			return err
		}
	}
}
