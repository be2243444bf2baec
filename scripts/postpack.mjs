// npm calls this when it has packed: `dist` is the result of the compiler again.
import { putBack, release } from './build.mjs';

if (!putBack()) throw new Error('A build has put `dist` back while npm packed it. Pack again.');
release();
