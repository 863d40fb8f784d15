// An envtest-style suite of a controller written with controller-runtime: a definition is installed, a manager with a cache and
// a field index runs a reconciler with finalizers, owned objects, status and events. It writes what it saw as one line of JSON a
// case, without what differs between any two clusters.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"sort"
	"strings"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
)

const (
	patience  = 60 * time.Second
	finalizer = "clients.example.com/clean-up"
)

var version = schema.GroupVersion{Group: "clients.example.com", Version: "v1"}

// Gizmo is the kind of the controller.
type Gizmo struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              GizmoSpec   `json:"spec,omitempty"`
	Status            GizmoStatus `json:"status,omitempty"`
}

type GizmoSpec struct {
	Replicas *int32            `json:"replicas,omitempty"`
	Color    string            `json:"color,omitempty"`
	Memory   resource.Quantity `json:"memory,omitempty"`
}

type GizmoStatus struct {
	Observed   int64              `json:"observed,omitempty"`
	Replicas   int32              `json:"replicas,omitempty"`
	Selector   string             `json:"selector,omitempty"`
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

type GizmoList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Gizmo `json:"items"`
}

func (g *Gizmo) DeepCopyObject() runtime.Object     { return copied(g, &Gizmo{}) }
func (g *GizmoList) DeepCopyObject() runtime.Object { return copied(g, &GizmoList{}) }

func copied[T any](from, to *T) *T {
	text, err := json.Marshal(from)
	if err != nil {
		panic(err)
	}
	if err := json.Unmarshal(text, to); err != nil {
		panic(err)
	}
	return to
}

func definition() *apiextensionsv1.CustomResourceDefinition {
	text := apiextensionsv1.JSONSchemaProps{Type: "string"}
	number := apiextensionsv1.JSONSchemaProps{Type: "integer", Format: "int32"}
	object := func(properties map[string]apiextensionsv1.JSONSchemaProps, required ...string) apiextensionsv1.JSONSchemaProps {
		return apiextensionsv1.JSONSchemaProps{Type: "object", Properties: properties, Required: required}
	}
	colors := text
	colors.Enum = []apiextensionsv1.JSON{{Raw: []byte(`"red"`)}, {Raw: []byte(`"blue"`)}, {Raw: []byte(`"green"`)}}
	colors.XValidations = apiextensionsv1.ValidationRules{{Rule: "self != 'green' || oldSelf == 'blue'", Message: "green comes after blue"}}
	defaulted := number
	defaulted.Default = &apiextensionsv1.JSON{Raw: []byte("1")}
	defaulted.Minimum = ptr.To(0.0)
	memory := apiextensionsv1.JSONSchemaProps{XIntOrString: true, AnyOf: []apiextensionsv1.JSONSchemaProps{{Type: "integer"}, {Type: "string"}},
		Pattern: `^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$`}
	condition := object(map[string]apiextensionsv1.JSONSchemaProps{"type": text, "status": text, "reason": text, "message": text, "observedGeneration": {Type: "integer", Format: "int64"},
		"lastTransitionTime": {Type: "string", Format: "date-time"}}, "type", "status", "lastTransitionTime", "reason", "message")
	schema := object(map[string]apiextensionsv1.JSONSchemaProps{
		"apiVersion": text, "kind": text, "metadata": {Type: "object"},
		"spec": object(map[string]apiextensionsv1.JSONSchemaProps{"replicas": defaulted, "color": colors, "memory": memory}),
		"status": object(map[string]apiextensionsv1.JSONSchemaProps{"observed": {Type: "integer", Format: "int64"}, "replicas": number, "selector": text,
			"conditions": {Type: "array", XListType: ptr.To("map"), XListMapKeys: []string{"type"}, Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &condition}}}),
	})
	return &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "gizmos." + version.Group}, Spec: apiextensionsv1.CustomResourceDefinitionSpec{
		Group: version.Group, Scope: apiextensionsv1.NamespaceScoped,
		Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "gizmos", Singular: "gizmo", Kind: "Gizmo", ListKind: "GizmoList", ShortNames: []string{"gz"}},
		Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{Name: version.Version, Served: true, Storage: true,
			Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &schema},
			Subresources: &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{},
				Scale: &apiextensionsv1.CustomResourceSubresourceScale{SpecReplicasPath: ".spec.replicas", StatusReplicasPath: ".status.replicas", LabelSelectorPath: ptr.To(".status.selector")}},
			SelectableFields: []apiextensionsv1.SelectableField{{JSONPath: ".spec.color"}},
		}},
	}}
}

// gizmoReconciler keeps a ConfigMap and a Deployment for each Gizmo.
type gizmoReconciler struct {
	client.Client
	mutex   sync.Mutex
	cleaned []string
}

func (r *gizmoReconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var gizmo Gizmo
	if err := r.Get(ctx, request.NamespacedName, &gizmo); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !gizmo.DeletionTimestamp.IsZero() {
		if controllerutil.RemoveFinalizer(&gizmo, finalizer) {
			r.mutex.Lock()
			r.cleaned = append(r.cleaned, gizmo.Name)
			r.mutex.Unlock()
			return ctrl.Result{}, client.IgnoreNotFound(r.Update(ctx, &gizmo))
		}
		return ctrl.Result{}, nil
	}
	// The generation stays, so nothing else would bring this object back.
	if controllerutil.AddFinalizer(&gizmo, finalizer) {
		if err := r.Update(ctx, &gizmo); err != nil {
			return ctrl.Result{}, err
		}
	}
	settings := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: gizmo.Name, Namespace: gizmo.Namespace}}
	if _, err := controllerutil.CreateOrUpdate(ctx, r.Client, settings, func() error {
		settings.Data = map[string]string{"color": gizmo.Spec.Color}
		return controllerutil.SetControllerReference(&gizmo, settings, r.Scheme())
	}); err != nil {
		return ctrl.Result{}, err
	}
	labels := map[string]string{"gizmo": gizmo.Name}
	workload := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: gizmo.Name, Namespace: gizmo.Namespace}}
	if _, err := controllerutil.CreateOrPatch(ctx, r.Client, workload, func() error {
		workload.Spec.Replicas = gizmo.Spec.Replicas
		workload.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
		workload.Spec.Template.Labels = labels
		if len(workload.Spec.Template.Spec.Containers) == 0 {
			workload.Spec.Template.Spec.Containers = []corev1.Container{{Name: "main", Image: "nginx"}}
		}
		return controllerutil.SetControllerReference(&gizmo, workload, r.Scheme())
	}); err != nil {
		return ctrl.Result{}, err
	}
	before := gizmo.DeepCopyObject().(*Gizmo)
	gizmo.Status.Observed, gizmo.Status.Replicas, gizmo.Status.Selector = gizmo.Generation, workload.Status.ReadyReplicas, "gizmo="+gizmo.Name
	ready := metav1.ConditionFalse
	if workload.Status.ReadyReplicas == *gizmo.Spec.Replicas {
		ready = metav1.ConditionTrue
	}
	apimeta.SetStatusCondition(&gizmo.Status.Conditions, metav1.Condition{Type: "Ready", Status: ready, Reason: "Counted", ObservedGeneration: gizmo.Generation})
	return ctrl.Result{}, r.Status().Patch(ctx, &gizmo, client.MergeFrom(before))
}

// transcript is what was seen, a line a case.
type transcript struct {
	out   *json.Encoder
	runID string
}

var changing = map[string]bool{"uid": true, "resourceVersion": true, "creationTimestamp": true, "deletionTimestamp": true, "time": true, "lastTransitionTime": true, "lastUpdateTime": true}

func (t *transcript) record(name string, value any, err error) {
	line := map[string]any{"case": name}
	var status apierrors.APIStatus
	switch {
	case errors.As(err, &status):
		body := status.Status()
		line["error"] = t.strip(map[string]any{"reason": string(body.Reason), "code": float64(body.Code), "message": body.Message})
	case err != nil:
		line["error"] = t.strip(err.Error())
	default:
		text, err := json.Marshal(value)
		if err != nil {
			panic(err)
		}
		var decoded any
		if err := json.Unmarshal(text, &decoded); err != nil {
			panic(err)
		}
		line["value"] = t.strip(decoded)
	}
	if err := t.out.Encode(line); err != nil {
		panic(err)
	}
}

func (t *transcript) strip(value any) any {
	switch value := value.(type) {
	case map[string]any:
		delete(value, "managedFields")
		for name, member := range value {
			if changing[name] {
				value[name] = "<" + name + ">"
			} else {
				value[name] = t.strip(member)
			}
		}
		return value
	case []any:
		for i := range value {
			value[i] = t.strip(value[i])
		}
		return value
	case string:
		return strings.ReplaceAll(value, t.runID, "<run>")
	}
	return value
}

func eventually(ready func() (bool, error)) error {
	var last error
	err := wait.PollUntilContextTimeout(context.Background(), 50*time.Millisecond, patience, true, func(context.Context) (bool, error) {
		done, err := ready()
		last = err
		return done && err == nil, nil
	})
	if err != nil && last != nil {
		return last
	}
	return err
}

func main() {
	kubeconfig := flag.Lookup("kubeconfig") // controller-runtime brings the flag
	out := flag.String("transcript", "", "where the cases are written")
	flag.Parse()
	ctrl.SetLogger(zap.New(zap.WriteTo(os.Stderr)))
	file, err := os.Create(*out)
	if err != nil {
		panic(err)
	}
	defer file.Close()
	configuration, err := clientcmd.BuildConfigFromFlags("", kubeconfig.Value.String())
	if err != nil {
		panic(err)
	}
	configuration.QPS, configuration.Burst = 500, 1000
	t := &transcript{out: json.NewEncoder(file), runID: fmt.Sprintf("r%x", time.Now().UnixNano()&0xffffff)}
	if err := suite(t, configuration); err != nil {
		t.record("suite", nil, err)
	}
}

func suite(t *transcript, configuration *rest.Config) error {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), apiextensionsv1.AddToScheme(scheme)); err != nil {
		return err
	}
	scheme.AddKnownTypes(version, &Gizmo{}, &GizmoList{})
	metav1.AddToGroupVersion(scheme, version)

	direct, err := client.New(configuration, client.Options{Scheme: scheme})
	if err != nil {
		return err
	}
	_, err = envtest.InstallCRDs(configuration, envtest.CRDInstallOptions{CRDs: []*apiextensionsv1.CustomResourceDefinition{definition()}, Scheme: scheme, MaxTime: patience})
	t.record("definition/install", nil, err)
	_, err = envtest.InstallCRDs(configuration, envtest.CRDInstallOptions{CRDs: []*apiextensionsv1.CustomResourceDefinition{definition()}, Scheme: scheme, MaxTime: patience})
	t.record("definition/install again", nil, err)
	var installed apiextensionsv1.CustomResourceDefinition
	err = direct.Get(ctx, client.ObjectKey{Name: definition().Name}, &installed)
	sort.Slice(installed.Status.Conditions, func(i, j int) bool { return installed.Status.Conditions[i].Type < installed.Status.Conditions[j].Type })
	t.record("definition/get", installed, err)

	namespace := "runtime-" + t.runID
	t.record("namespace", nil, direct.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}))

	manager, err := ctrl.NewManager(configuration, ctrl.Options{
		Scheme: scheme, Metrics: server.Options{BindAddress: "0"},
		Cache:          cache.Options{DefaultNamespaces: map[string]cache.Config{namespace: {}}},
		LeaderElection: true, LeaderElectionID: "gizmos.clients.example.com", LeaderElectionNamespace: namespace, LeaderElectionReleaseOnCancel: true,
	})
	if err != nil {
		return err
	}
	reconciler := &gizmoReconciler{Client: manager.GetClient()}
	if err := manager.GetFieldIndexer().IndexField(ctx, &Gizmo{}, "color", func(object client.Object) []string { return []string{object.(*Gizmo).Spec.Color} }); err != nil {
		return err
	}
	var mutex sync.Mutex
	deleted := 0
	err = ctrl.NewControllerManagedBy(manager).
		For(&Gizmo{}, builder.WithPredicates(predicate.Or(predicate.Funcs{
			UpdateFunc: func(change event.UpdateEvent) bool { return change.ObjectNew.GetDeletionTimestamp() != nil },
			DeleteFunc: func(event.DeleteEvent) bool { mutex.Lock(); deleted++; mutex.Unlock(); return true },
		}, predicate.GenerationChangedPredicate{}))).
		Owns(&corev1.ConfigMap{}).Owns(&appsv1.Deployment{}).Complete(reconciler)
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- manager.Start(ctx) }()
	t.record("manager/synced", manager.GetCache().WaitForCacheSync(ctx), nil)

	cached := manager.GetClient()
	gizmo := func(name, color string) *Gizmo {
		return &Gizmo{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace}, Spec: GizmoSpec{Color: color, Memory: resource.MustParse("1.5Gi")}}
	}
	one := gizmo("one", "red")
	t.record("gizmo/create", one, cached.Create(ctx, one))
	t.record("gizmo/invalid", nil, cached.Create(ctx, gizmo("two", "pink")))
	t.record("gizmo/dry run", nil, client.NewDryRunClient(cached).Create(ctx, gizmo("three", "blue")))
	t.record("gizmo/create another", nil, cached.Create(ctx, gizmo("four", "blue")))
	key := client.ObjectKeyFromObject(one)
	becomes := func(name string, check func(*Gizmo) bool) {
		var live Gizmo
		err := eventually(func() (bool, error) { err := cached.Get(ctx, key, &live); return check(&live), err })
		t.record(name, live, err)
	}
	becomes("gizmo/ready", func(live *Gizmo) bool { return apimeta.IsStatusConditionTrue(live.Status.Conditions, "Ready") })
	var settings corev1.ConfigMap
	t.record("owned/settings", &settings, eventually(func() (bool, error) { return true, cached.Get(ctx, key, &settings) }))
	var workload appsv1.Deployment
	err = eventually(func() (bool, error) {
		err := cached.Get(ctx, key, &workload)
		return workload.Status.ReadyReplicas == 1, err
	})
	t.record("owned/workload", map[string]any{"spec": workload.Spec, "owners": workload.OwnerReferences, "ready": workload.Status.ReadyReplicas}, err)
	colored := func(name string, option client.ListOption) {
		names := []string{}
		err := eventually(func() (bool, error) {
			var list GizmoList
			names = []string{}
			err := cached.List(ctx, &list, client.InNamespace(namespace), option)
			for _, item := range list.Items {
				names = append(names, item.Name)
			}
			return len(names) > 0, err
		})
		t.record(name, names, err)
	}
	colored("index/red", client.MatchingFields{"color": "red"})
	colored("index/blue", client.MatchingFields{"color": "blue"})
	var selected GizmoList
	err = direct.List(ctx, &selected, client.InNamespace(namespace), client.MatchingFields{"spec.color": "blue"})
	t.record("server's field selector", len(selected.Items), err)

	t.record("gizmo/rule", nil, cached.Patch(ctx, one, client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"color":"green"}}`))))
	t.record("gizmo/blue", nil, cached.Patch(ctx, one, client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"color":"blue","replicas":2}}`))))
	becomes("gizmo/two replicas", func(live *Gizmo) bool { return live.Status.Replicas == 2 && live.Status.Observed == live.Generation })
	t.record("settings follow", nil, eventually(func() (bool, error) {
		err := cached.Get(ctx, key, &settings)
		return settings.Data["color"] == "blue", err
	}))
	t.record("settings deleted", nil, cached.Delete(ctx, &settings))
	t.record("settings are made again", nil, eventually(func() (bool, error) {
		var again corev1.ConfigMap
		err := cached.Get(ctx, key, &again)
		return again.UID != settings.UID, err
	}))

	// The status is a subresource: neither write touches the other's half.
	var live Gizmo
	err = direct.Get(ctx, key, &live)
	live.Status.Replicas = 77
	live.Labels = map[string]string{"l": "v"}
	t.record("status/ignored by an update", live.Status.Replicas, errors.Join(err, direct.Update(ctx, &live)))
	live.Spec.Color = "red"
	live.Status.Selector = "by=hand"
	t.record("status/spec ignored", live.Spec.Color, direct.Status().Update(ctx, &live))
	scale := &autoscalingv1.Scale{}
	t.record("scale/get", scale, direct.SubResource("scale").Get(ctx, &live, scale))
	scale.Spec.Replicas = 1
	t.record("scale/update", scale, direct.SubResource("scale").Update(ctx, &live, client.WithSubResourceBody(scale)))
	becomes("scale/followed", func(live *Gizmo) bool { return live.Status.Replicas == 1 && live.Status.Observed == live.Generation })

	var again Gizmo
	stale := direct.Get(ctx, key, &again)
	again.ResourceVersion = "1"
	before := again.DeepCopyObject().(*Gizmo)
	again.Labels = map[string]string{"stale": "yes"}
	t.record("optimistic lock", nil, errors.Join(stale, direct.Patch(ctx, &again, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))))

	applied := func(name, color, owner string, options ...client.PatchOption) {
		body := &unstructured.Unstructured{Object: map[string]any{"apiVersion": version.String(), "kind": "Gizmo", "metadata": map[string]any{"name": "applied", "namespace": namespace}, "spec": map[string]any{"color": color, "replicas": int64(0)}}}
		err := direct.Patch(ctx, body, client.Apply, append(options, client.FieldOwner(owner))...) //nolint:staticcheck // what programs use
		// The controller writes the rest at its own time.
		written, _, _ := unstructured.NestedString(body.Object, "spec", "color")
		t.record(name, written, err)
	}
	applied("apply/create", "red", "clients-a")
	applied("apply/again", "red", "clients-a")
	applied("apply/conflict", "blue", "clients-b")
	applied("apply/forced", "blue", "clients-b", client.ForceOwnership)

	foreground := direct.Delete(ctx, one, client.PropagationPolicy(metav1.DeletePropagationForeground))
	t.record("delete", nil, foreground)
	t.record("delete/gone", nil, eventually(func() (bool, error) {
		err := direct.Get(ctx, key, &Gizmo{})
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	}))
	t.record("delete/owned are gone", nil, eventually(func() (bool, error) {
		err := direct.Get(ctx, key, &corev1.ConfigMap{})
		other := direct.Get(ctx, key, &appsv1.Deployment{})
		return apierrors.IsNotFound(err) && apierrors.IsNotFound(other), nil
	}))
	t.record("delete/all of", nil, direct.DeleteAllOf(ctx, &Gizmo{}, client.InNamespace(namespace)))
	t.record("delete/none left", nil, eventually(func() (bool, error) {
		var list GizmoList
		err := direct.List(ctx, &list, client.InNamespace(namespace))
		return len(list.Items) == 0, err
	}))
	reconciler.mutex.Lock()
	sort.Strings(reconciler.cleaned)
	names := []string{}
	for i, name := range reconciler.cleaned {
		if i == 0 || reconciler.cleaned[i-1] != name {
			names = append(names, name)
		}
	}
	t.record("finalizers/cleaned", names, nil)
	reconciler.mutex.Unlock()
	t.record("events of deletion", nil, eventually(func() (bool, error) { mutex.Lock(); defer mutex.Unlock(); return deleted == 3, nil }))

	t.record("definition/uninstall", nil, envtest.UninstallCRDs(configuration, envtest.CRDInstallOptions{CRDs: []*apiextensionsv1.CustomResourceDefinition{definition()}, Scheme: scheme}))
	t.record("definition/gone", nil, eventually(func() (bool, error) {
		err := direct.Get(ctx, client.ObjectKey{Name: definition().Name}, &installed)
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	}))
	stop()
	select {
	case err = <-ended:
	case <-time.After(patience):
		err = errors.New("the manager does not end")
	}
	t.record("manager/ended", nil, err)
	return direct.Delete(context.Background(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
}
