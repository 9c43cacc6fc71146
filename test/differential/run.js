// `npm run differential`.

import { runBuilt } from '../support/run-built.js'

await runBuilt('differential')
