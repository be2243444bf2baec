import { Injectable, Module } from '@nestjs/common';
import { Type } from 'class-transformer';
import { IsInt, IsString, Min, ValidateNested } from 'class-validator';
import { McpArgs, McpHandlers, McpStreamableModule, Tool } from 'nestjs-mcp-streamable';
import { OtelInstrumentation } from 'nestjs-mcp-streamable/otel';
import { McpPrometheusModule } from 'nestjs-mcp-streamable/prometheus';
import { redisBackend } from 'nestjs-mcp-streamable/redis';

/**
 * What builders and test runners get wrong: types of parameters, for Nest (`StockService`) and for schemas (`TakeDto`), the
 * copy of class-transformer that `@Type()` writes to, and packages that are loaded when they are needed.
 */

export class PlaceDto {
  @IsString()
  shelf!: string;
}

export class TakeDto {
  @IsString()
  item!: string;

  @IsInt()
  @Min(1)
  count!: number;

  @Type(() => PlaceDto)
  @ValidateNested({ each: true })
  places!: PlaceDto[];
}

@Injectable()
export class StockService {
  left(count: number): number {
    return 10 - count;
  }
}

@McpHandlers({ endpoint: 'stock' })
@Injectable()
export class StockTools {
  constructor(private readonly stock: StockService) {}

  @Tool({ name: 'take' })
  take(@McpArgs() { item, count, places }: TakeDto): string {
    return `${this.stock.left(count)} of ${item} are left on ${places.map(({ shelf }) => shelf).join()}.`;
  }
}

@Module({
  imports: [
    McpStreamableModule.forRoot({
      name: 'stock',
      path: 'stock',
      serverInfo: { name: 'stock', version: '1.0.0' },
      instrumentation: new OtelInstrumentation(),
    }),
    McpStreamableModule.forRoot({
      name: 'private',
      path: 'private',
      serverInfo: { name: 'private', version: '1.0.0' },
      auth: { resource: 'http://127.0.0.1/private', authorizationServers: ['http://127.0.0.1:1/'] },
    }),
    McpPrometheusModule.forRoot(),
  ],
  // It loads ioredis, and connects when it is used.
  providers: [StockService, StockTools, { provide: 'BACKEND', useFactory: () => redisBackend('redis://127.0.0.1:1') }],
})
export class StockModule {}
