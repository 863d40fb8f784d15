//! What people see of promotions, and what they ask for: on the sandbox, with a clock that is moved by hand.

mod actions;
mod cookbook;
mod reasons;
mod written;

use slipway_promotion::view::{PipelineSurvey, SurveySettings, survey_pipeline};

use crate::promotion::world::{NAMESPACE, POLICY, World};

/// Everything about the pipeline `app`.
pub(crate) async fn survey(world: &World) -> PipelineSurvey {
    let settings = SurveySettings { policy_namespaces: [POLICY.to_owned()].into() };
    let found = survey_pipeline(&world.cluster, &settings, NAMESPACE, "app", world.now()).await;
    found.expect("is read").expect("the pipeline exists")
}
