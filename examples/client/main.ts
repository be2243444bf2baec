// A Nest app without a server of its own that calls another one: searches the documents of the quickstart for its argument.
import 'reflect-metadata';
import { NestFactory } from '@nestjs/core';
import { AppModule } from './app.module.js';
import { DocsSearch } from './docs-search.service.js';
import { writeLine } from './progress-bar.js';

const [query = 'session'] = process.argv.slice(2);
const app = await NestFactory.createApplicationContext(AppModule, { logger: ['error', 'warn'] });
// Ctrl-C cancels the search, and ends the session on the server.
app.enableShutdownHooks();

const lines$ = app.get(DocsSearch).search$(query);
try {
  await lines$.forEach((line) => writeLine(process.stdout, line));
} catch (error) {
  console.error(`\nThe search failed: ${error instanceof Error ? error.message : String(error)}`);
  process.exitCode = 1;
} finally {
  await app.close();
}
