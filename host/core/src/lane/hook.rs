//! The hook in a chain: front to back (decision D3).

use super::chain::{Instances, StageFailure};
use crate::output::Outputs;
use crate::plugin::EndReason;

impl Instances {
    /// Calls `generation-ended` of each transform that has got a record. What one emits is passed to the next as records with offset -1,
    /// before that one's own hook. Any failure is the hook's.
    pub(super) fn generation_ended(&mut self, reason: EndReason, now: i64, outputs: &mut Outputs) -> Result<(), StageFailure> {
        self.reset();
        for stage in 0..self.chain().len() {
            self.hook_stage(stage, reason, now, outputs).map_err(|failure| StageFailure { stage, failure })?;
        }
        Ok(())
    }

    fn hook_stage(
        &mut self,
        stage: usize,
        reason: EndReason,
        now: i64,
        outputs: &mut Outputs,
    ) -> Result<(), crate::plugin::Failure> {
        if stage > 0 {
            let inputs = self.take_between(stage - 1);
            for index in 0..inputs.len() {
                self.ensure(stage)?;
                self.call(stage, &inputs.as_record(index, -1), outputs)?;
            }
        }
        self.call_hook(stage, reason, now, outputs)
    }
}
