// `npm run conformance:client -- URL`: the client that the conformance suite drives, built first if its sources are newer.
import { pathToFileURL } from 'node:url';
import { upToDateClient } from './conformance-build.mjs';

await import(pathToFileURL(await upToDateClient()).href);
