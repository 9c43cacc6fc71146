// The commands as someone at a terminal meets them, on one machine: test/transcripts/alone.

import { runTranscripts } from '../support/transcript.ts'

runTranscripts('alone')
