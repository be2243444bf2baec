import 'reflect-metadata';
import { Injectable, Logger, Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { McpStreamableModule, Tool } from 'nestjs-mcp-streamable';
import { serveMcpStdio } from 'nestjs-mcp-streamable/stdio';

/** An app that knows nothing of stdio: its log goes to stdout, and so does what its tool says. */
@Injectable()
class Tools {
  readonly #logger = new Logger('Noise');

  @Tool({ name: 'noise' })
  noise(): string {
    console.log('from the console');
    this.#logger.log('from the logger');
    return 'quiet';
  }

  @Tool({ name: 'quit' })
  quit(): string {
    setImmediate(() => void app.close());
    return 'soon';
  }
}

@Module({
  imports: [McpStreamableModule.forRoot({ serverInfo: { name: 'noisy', version: '1.0.0' } })],
  providers: [Tools],
})
class NoisyModule {}

const app = await NestFactory.createApplicationContext(NoisyModule, { logger: ['log', 'warn', 'error'] });
await serveMcpStdio(app);
