//! Services, what is behind them, and how they are reached.

use std::sync::Arc;

use serde_json::Value;

use super::{KindStrategy, WriteContext};
use crate::core::Core;
use crate::status::{Result, StatusCause};
use crate::store::{ObjectKey, StoredObject};
use crate::write::admit::default::set_default;
use crate::write::admit::validate::{CauseList, cluster, indexed_items, network, service, status};
use crate::write::admit::{admission, default, prepare, warn};

pub(super) struct Service;

impl KindStrategy for Service {
    fn set_defaults(&self, _version: &str, object: &mut Value) {
        default::service::default_service(object);
    }

    fn prepare_update(&self, new: &mut Value, live: &Value) {
        prepare::prepare_service(new, live);
    }

    /// Gives a service its addresses and ports; [`Service::after_delete`] takes them back.
    fn complete(&self, cx: &WriteContext<'_>, object: &mut Value, live: Option<&Value>) -> Result<()> {
        let holder = allocation_owner(cx.key);
        let given = cx.core.addresses.allocate_service(&holder, object, live, cx.author.dry_run);
        given.map_err(|refusal| refusal.into_status(cx.served.kind_name(), &cx.key.name))
    }

    fn validate(&self, object: &Value, old: Option<&Value>, out: &mut CauseList) {
        service::validate_service(object, old, out);
    }

    fn validate_status(&self, object: &Value, old: &Value, out: &mut CauseList) {
        if object["spec"]["type"] != "LoadBalancer"
            && indexed_items(&object["status"]["loadBalancer"]["ingress"]).next().is_some()
        {
            let why = "may only be used when `spec.type` is 'LoadBalancer'";
            out.push(StatusCause::forbidden("status.loadBalancer.ingress", why));
        } else {
            status::validate_balancer(object, old, true, out);
        }
    }

    fn add_warnings(&self, object: &Value, _old: Option<&Value>, out: &mut Vec<String>) {
        warn::warn_about_service(object, out);
    }

    fn after_write(&self, core: &Core, _before: Option<&StoredObject>, now: &Arc<StoredObject>) {
        let value = now.value();
        let holder = allocation_owner(&now.key);
        core.addresses.adopt_service(&holder, &value);
        core.addresses.release_service(&holder, Some(&value));
    }

    fn after_delete(&self, core: &Core, key: &ObjectKey) {
        core.addresses.release_service(&allocation_owner(key), None);
    }
}

fn allocation_owner(key: &ObjectKey) -> String {
    format!("{}/{}", key.namespace, key.name)
}

pub(super) struct Endpoints;

impl KindStrategy for Endpoints {
    fn set_defaults(&self, _version: &str, object: &mut Value) {
        default::service::default_endpoints(object);
    }

    fn validate(&self, object: &Value, old: Option<&Value>, out: &mut CauseList) {
        service::validate_endpoints(object, old, out);
    }
}

pub(super) struct EndpointSlice;

impl KindStrategy for EndpointSlice {
    fn set_defaults(&self, _version: &str, object: &mut Value) {
        default::service::default_endpoint_slice(object);
    }

    fn validate(&self, object: &Value, old: Option<&Value>, out: &mut CauseList) {
        service::validate_endpoint_slice(object, old, out);
    }

    fn fixed_fields(&self) -> &'static [&'static str] {
        &["addressType"]
    }
}

pub(super) struct Ingress;

/// The older place of an ingress's class.
const INGRESS_CLASS: &str = "kubernetes.io/ingress.class";

impl KindStrategy for Ingress {
    fn admit_new(&self, core: &Core, object: &mut Value) -> Result<()> {
        admission::default_ingress_class(core, object);
        Ok(())
    }

    fn validate(&self, object: &Value, old: Option<&Value>, out: &mut CauseList) {
        let annotated = slipway_manifest::object::annotation(object, INGRESS_CLASS);
        if old.is_none()
            && let (Some(annotated), Some(class)) = (annotated, object["spec"]["ingressClassName"].as_str())
            && annotated != class
        {
            let why = "must match `ingressClassName` when both are specified";
            out.push(StatusCause::invalid(format!("annotations.{INGRESS_CLASS}"), &annotated.into(), why));
        }
        network::validate_ingress(&object["spec"], out);
    }

    fn validate_status(&self, object: &Value, old: &Value, out: &mut CauseList) {
        status::validate_balancer(object, old, false, out);
    }

    fn add_warnings(&self, object: &Value, old: Option<&Value>, out: &mut Vec<String>) {
        let class = slipway_manifest::object::annotation(object, INGRESS_CLASS);
        if old.is_none() && class.is_some() {
            out.push(
                "annotation \"kubernetes.io/ingress.class\" is deprecated, please use 'spec.ingressClassName' instead"
                    .into(),
            );
        }
    }
}

pub(super) struct IngressClass;

impl KindStrategy for IngressClass {
    fn set_defaults(&self, _version: &str, object: &mut Value) {
        if object["spec"]["parameters"].is_object() {
            set_default(&mut object["spec"]["parameters"], "scope", "Cluster");
        }
    }

    fn validate(&self, object: &Value, _old: Option<&Value>, out: &mut CauseList) {
        network::validate_ingress_class(&object["spec"], out);
    }

    fn fixed_fields(&self) -> &'static [&'static str] {
        &["spec.controller"]
    }

    fn reports_immutable_first(&self) -> bool {
        true
    }
}

pub(super) struct NetworkPolicy;

impl KindStrategy for NetworkPolicy {
    fn set_defaults(&self, _version: &str, object: &mut Value) {
        default::default_network_policy(object);
    }

    fn validate(&self, object: &Value, old: Option<&Value>, out: &mut CauseList) {
        network::validate_network_policy(&object["spec"], old, out);
    }
}

pub(super) struct IpAddress;

impl KindStrategy for IpAddress {
    fn validate(&self, object: &Value, _old: Option<&Value>, out: &mut CauseList) {
        cluster::validate_ip_address(&object["spec"], out);
    }

    fn fixed_fields(&self) -> &'static [&'static str] {
        &["spec.parentRef"]
    }
}

pub(super) struct ServiceCidr;

impl KindStrategy for ServiceCidr {
    fn validate(&self, object: &Value, old: Option<&Value>, out: &mut CauseList) {
        if old.is_none() {
            cluster::validate_service_cidr(&object["spec"], out);
        }
    }

    fn check_immutable(&self, new: &Value, old: &Value, out: &mut CauseList) {
        cluster::validate_service_cidr_update(&new["spec"], &old["spec"], out);
    }
}
